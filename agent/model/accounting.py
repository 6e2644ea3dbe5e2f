"""What a run may spend and has spent: rounds, tokens, money, wall time, GPU time. Plain values and functions; the ledger is the one
place that changes.

Budgets are hard: a request is sent only when no budget would be overrun even if every byte of it were a token and the reply as
long as it may be. So the last part of a budget may stay unspent.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from stitchcuda.agent.model.messages import Ask, BudgetSpent, Usage

LONGEST_REPLY = 32_768  # tokens, where the budget allows as many
SHORTEST_REPLY = 256  # tokens; with less left, nothing is asked
_FRAME_TOKENS = 512  # that a chat template may add, and
_MESSAGE_TOKENS = 16  # for each message
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Prices:
    """Of a million tokens, in one currency. `cached` is for input that the endpoint had already; None: as other input."""

    input: float = 0.0
    output: float = 0.0
    cached: float | None = None

    def of(self, usage: Usage) -> float:
        cached = self.input if self.cached is None else self.cached
        fresh = max(usage.input - usage.cached, 0)
        return (fresh * self.input + usage.cached * cached + usage.output * self.output) / MILLION


FREE = Prices()


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be spent in one run, None for the default (`DEFAULTS`). `money` is in the currency of the prices."""

    rounds: int | None = None
    tokens: int | None = None
    money: float | None = None
    seconds: float | None = None
    gpu_seconds: float | None = None

    def filled(self) -> Budget:
        """With the defaults put in."""
        said = {name: value for name in _NAMES if (value := getattr(self, name)) is not None}
        return replace(DEFAULTS, **said)


UNSAID = Budget()
DEFAULTS = Budget(rounds=12, tokens=1_000_000, money=math.inf, seconds=3600.0, gpu_seconds=1800.0)
_NAMES = {
    "rounds": "rounds",
    "tokens": "tokens",
    "money": "money",
    "seconds": "time",
    "gpu_seconds": "GPU time",
}


@dataclass(frozen=True, slots=True)
class Spent:
    """What was spent so far. `estimated` tokens are part of `tokens`: the endpoint did not say how many it took."""

    rounds: int = 0
    tokens: int = 0
    money: float = 0.0
    seconds: float = 0.0
    gpu_seconds: float = 0.0
    requests: int = 0
    estimated: int = 0

    def with_usage(self, usage: Usage) -> Spent:
        tokens = usage.input + usage.output
        return replace(
            self,
            tokens=self.tokens + tokens,
            money=self.money + usage.money,
            requests=self.requests + 1,
            estimated=self.estimated + (tokens if usage.estimated else 0),
        )


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one request may take: tokens of the reply, and seconds until it must be over."""

    output: int
    seconds: float


def exhausted(budget: Budget, spent: Spent) -> str | None:
    """Which budget has nothing left, as a user calls it; None when each has. Rounds count from their beginning: the last one is
    still under way when none is left."""
    whole = budget.filled()
    return next((name for key, name in _NAMES.items() if getattr(spent, key) >= getattr(whole, key)), None)


def tokens_at_most(text: str) -> int:
    """No tokenizer makes more tokens of a text: each stands for a byte at least."""
    return len(text.encode("utf-8", "surrogatepass"))


def input_at_most(ask: Ask, body: str) -> int:
    """Tokens that a request can take at most; `body` is its JSON text without escapes of letters."""
    return tokens_at_most(body) + _FRAME_TOKENS + _MESSAGE_TOKENS * len(ask.messages)


def check_before(budget: Budget, spent: Spent, input_tokens: int, prices: Prices) -> Allowance:
    """What a request whose input takes at most that many tokens may take. Raises BudgetSpent."""
    whole = budget.filled()
    assert whole.tokens is not None and whole.money is not None and whole.seconds is not None
    what = exhausted(budget, replace(spent, rounds=0))
    if what is not None:
        raise BudgetSpent(what, f"the budget of {what} is spent ({described(budget, spent, what)})")
    output, short = min(LONGEST_REPLY, whole.tokens - spent.tokens - input_tokens), "tokens"
    dearest = max(prices.input, prices.cached or 0.0)
    money = whole.money - spent.money - input_tokens * dearest / MILLION
    if prices.output > 0:
        affordable = money * MILLION / prices.output
    else:
        affordable = math.inf if money >= 0 else 0.0
    if affordable < output:
        output, short = int(max(affordable, 0)), "money"
    if output < SHORTEST_REPLY:
        raise BudgetSpent(
            short,
            f"the next request could go beyond the budget of {short} ({described(budget, spent, short)}): "
            f"it may take {input_tokens} tokens, and the reply {SHORTEST_REPLY} at least",
        )
    return Allowance(output, whole.seconds - spent.seconds)


def described(budget: Budget, spent: Spent, what: str) -> str:
    """How far a budget is spent, for the user: "3 of 12"."""
    key = next(key for key, name in _NAMES.items() if name == what)
    whole, used = getattr(budget.filled(), key), getattr(spent, key)
    unit = " s" if key in ("seconds", "gpu_seconds") else ""
    shown = f"{used:.4g}" if key == "money" else f"{used:.0f}"
    return f"{shown} of {whole:g}{unit}" if key == "money" else f"{shown} of {whole:.0f}{unit}"


class Ledger:
    """Budget and spending of one run. Wall time runs from its making."""

    def __init__(self, budget: Budget, prices: Prices = FREE, clock: Callable[[], float] = time.monotonic) -> None:
        self.budget, self.prices = budget, prices
        self._clock, self._started = clock, clock()
        self._spent = Spent()

    @property
    def spent(self) -> Spent:
        return replace(self._spent, seconds=self._clock() - self._started)

    def exhausted(self) -> str | None:
        return exhausted(self.budget, self.spent)

    def check_before(self, input_tokens: int) -> Allowance:
        """Raises BudgetSpent."""
        return check_before(self.budget, self.spent, input_tokens, self.prices)

    def count(self, usage: Usage) -> Usage:
        """Takes one request into account; the usage with its money."""
        priced = replace(usage, money=self.prices.of(usage))
        self._spent = self._spent.with_usage(priced)
        return priced

    def add(self, spent: Spent) -> None:
        """Takes over what was counted elsewhere: by a run that is replayed, or earlier in this one."""
        mine = self._spent
        self._started -= spent.seconds
        self._spent = replace(
            mine,
            rounds=mine.rounds + spent.rounds,
            gpu_seconds=mine.gpu_seconds + spent.gpu_seconds,
            tokens=mine.tokens + spent.tokens,
            money=mine.money + spent.money,
            requests=mine.requests + spent.requests,
            estimated=mine.estimated + spent.estimated,
        )

    def begin_round(self) -> None:
        """Raises BudgetSpent when every round was begun."""
        what = "rounds"
        if self._spent.rounds >= (self.budget.filled().rounds or 0):
            raise BudgetSpent(what, f"the budget of rounds is spent ({described(self.budget, self._spent, what)})")
        self._spent = replace(self._spent, rounds=self._spent.rounds + 1)

    def count_gpu(self, seconds: float) -> None:
        self._spent = replace(self._spent, gpu_seconds=self._spent.gpu_seconds + seconds)
