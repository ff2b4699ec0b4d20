"""Routes: parse the request, call the use case, render the answer."""
