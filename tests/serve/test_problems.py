"""What is told of what went wrong."""

from forecaster.serve.problems import Problem, new_id, problem_fields


def test_problems_say_what_and_how_long() -> None:
    problem = Problem(503, "busy", "ask again")
    told = problem_fields(problem, "x" * 16)
    assert (told["title"], told["code"], told["id"]) == ("Service Unavailable", "busy", "x" * 16)
    assert problem.headers == {"Retry-After": "1"}
    assert str(problem) == "503 busy: ask again"
    assert len({new_id() for _ in range(99)}) == 99
