"""Programs that try a running registry from outside: a browser, and requests that are made up."""
