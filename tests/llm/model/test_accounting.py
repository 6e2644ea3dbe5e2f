"""Budgets as plain values: no request is allowed that could overrun one."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stitchcuda.agent.model.accounting import (
    DEFAULTS,
    LONGEST_REPLY,
    SHORTEST_REPLY,
    Budget,
    Ledger,
    Prices,
    Spent,
    check_before,
    exhausted,
    input_at_most,
    tokens_at_most,
)
from stitchcuda.agent.model.messages import Ask, BudgetSpent, Message, Speaker, Usage

amounts = st.floats(0, 1000, allow_nan=False)
prices = st.builds(Prices, amounts, amounts, st.none() | amounts)
budgets = st.builds(
    Budget,
    tokens=st.none() | st.integers(1, 10**7),
    money=st.none() | st.floats(1e-4, 1e4),
    seconds=st.none() | st.floats(1, 1e5),
)
usages = st.builds(Usage, st.integers(0, 10**6), st.just(0), st.integers(0, 10**5))


@given(budgets, prices, usages, st.integers(0, 10**6), st.data())
def test_what_is_allowed_fits(budget: Budget, price: Prices, before: Usage, asked: int, data: st.DataObject) -> None:
    """Whatever a request then takes of what it was allowed, cached or not, the budgets hold."""
    ledger = Ledger(budget, price, clock=lambda: 0.0)
    ledger.count(before)
    whole = budget.filled()
    assert whole.tokens is not None and whole.money is not None
    if ledger.spent.tokens > whole.tokens or ledger.spent.money > whole.money:
        with pytest.raises(BudgetSpent):
            ledger.check_before(asked)
        return
    try:
        allowed = ledger.check_before(asked)
    except BudgetSpent as spent:
        assert spent.what in ("tokens", "money") and spent.what in str(spent)
        return
    assert SHORTEST_REPLY <= allowed.output <= LONGEST_REPLY
    taken = data.draw(st.integers(0, asked))
    cached = data.draw(st.integers(0, taken))
    ledger.count(Usage(taken, cached, data.draw(st.integers(0, allowed.output))))
    now = ledger.spent
    assert now.tokens <= whole.tokens
    assert now.money <= whole.money * (1 + 1e-9)


def test_enough_is_allowed() -> None:
    """The other way round: what fits is not refused."""
    prices = Prices(1.0, 10.0)
    exact = 1000 + SHORTEST_REPLY
    assert check_before(Budget(tokens=exact), Spent(), 1000, prices).output == SHORTEST_REPLY
    with pytest.raises(BudgetSpent, match="1000 tokens"):
        check_before(Budget(tokens=exact - 1), Spent(), 1000, prices)
    money = (1000 * 1.0 + SHORTEST_REPLY * 10.0) / 1e6
    assert check_before(Budget(money=money * 1.000001), Spent(), 1000, prices).output == SHORTEST_REPLY
    with pytest.raises(BudgetSpent, match="budget of money"):
        check_before(Budget(money=money * 0.999), Spent(), 1000, prices)
    assert check_before(Budget(), Spent(), 1000, Prices()).output == LONGEST_REPLY
    with pytest.raises(BudgetSpent, match="budget of money"):  # what is cached may be dearer
        check_before(Budget(money=money * 2), Spent(), 1000, Prices(1.0, 10.0, 100.0))


@pytest.mark.parametrize(
    ("spent", "what"),
    [
        (Spent(), None),
        (Spent(rounds=12), "rounds"),
        (Spent(tokens=1_000_000), "tokens"),
        (Spent(seconds=3600), "time"),
        (Spent(gpu_seconds=1800), "GPU time"),
        (Spent(money=1e9), None),
    ],
)
def test_what_is_exhausted(spent: Spent, what: str | None) -> None:
    assert exhausted(Budget(), spent) == what


def test_the_last_round_may_ask() -> None:
    ledger = Ledger(Budget(rounds=1))
    ledger.begin_round()
    assert ledger.exhausted() == "rounds" and ledger.check_before(10).output == LONGEST_REPLY


def test_time_runs() -> None:
    now = [5.0]
    ledger = Ledger(Budget(seconds=10), clock=lambda: now[0])
    now[0] = 12.0
    assert ledger.spent.seconds == 7.0 and ledger.check_before(0).seconds == 3.0
    now[0] = 15.0
    with pytest.raises(BudgetSpent, match=r"the budget of time is spent \(10 of 10 s\)"):
        ledger.check_before(0)


def test_time_on_the_gpu() -> None:
    ledger = Ledger(Budget(gpu_seconds=100))
    ledger.count_gpu(70)
    assert ledger.exhausted() is None and ledger.spent.gpu_seconds == 70
    ledger.count_gpu(30)
    assert ledger.exhausted() == "GPU time"
    with pytest.raises(BudgetSpent, match="100 of 100 s"):
        ledger.check_before(0)


def test_money_is_counted_with_what_was_cached() -> None:
    ledger = Ledger(Budget(), Prices(2.0, 8.0, 0.5))
    assert ledger.count(Usage(1_000_000, 400_000, 500_000)).money == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 0.5 * 8)
    assert Prices(2.0, 8.0).of(Usage(1_000_000, 400_000, 0)) == 2.0


def test_the_defaults_are_those_of_the_page() -> None:
    assert Budget().filled() == DEFAULTS == Budget(12, 1_000_000, math.inf, 3600.0, 1800.0)
    assert Budget(tokens=5).filled() == Budget(12, 5, math.inf, 3600.0, 1800.0)


@given(st.lists(st.text(), max_size=4))
def test_no_tokenizer_makes_more(texts: list[str]) -> None:
    """Bytes are the finest tokens there are; a frame for each message comes on top."""
    ask = Ask("coder", "1", tuple(Message(Speaker.USER, t) for t in texts))
    body = json.dumps(texts, ensure_ascii=False)
    assert input_at_most(ask, body) > sum(len(t.encode("utf-8", "surrogatepass")) for t in texts) + 4 * len(texts)
    assert all(tokens_at_most(t) >= len(t) for t in texts)
