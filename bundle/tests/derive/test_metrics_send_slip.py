from k3bundle.derive.metrics.send_slip import send_slip_ms

from .records import MS, a_request


def test_send_slip_is_how_late_requests_with_a_schedule_were_sent() -> None:
    requests = [
        a_request(due_at_ns=10 * MS, sent_at_ns=10 * MS),
        a_request(due_at_ns=20 * MS, sent_at_ns=25 * MS),
        a_request(due_at_ns=30 * MS, sent_at_ns=39 * MS),
    ]
    assert send_slip_ms(requests, 0.5) == 5.0
    assert send_slip_ms(requests, 1.0) == 9.0


def test_send_slip_of_a_closed_loop_is_unknown() -> None:
    assert send_slip_ms([a_request()], 0.5) is None
