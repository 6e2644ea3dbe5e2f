"""One request while it is read: its text in one spelling, what has been understood of it, and what must be asked.

The spelling that the patterns see has exactly one character for each character of the request, so that a span in it is a
span of the request: lower case, half-width digits and punctuation, simplified characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from stitchcuda.analysis.contract.types import Question

Span = tuple[int, int]  # [start, end) in characters
T = TypeVar("T")

_SIMPLIFIED = """
於于 過过 遲迟 顯显 輸输 圖图 張张 幀帧 減减 兩两 內内 個个 條条 樣样 請请 時时 間间 響响 應应 頻频 寬宽 佔占 對对 誤误 絕绝 準准 確确 單单 雙双 許许 須须 該该 導导 縮缩 優优 達达 還还
這这 沒没 異异 傳传 線线 數数 據据 處处 類类 給给 讓让 將将 約约 總总 壓压 穩稳 態态 級级 驗验 碼码 與与 後后 記记 憶忆 體体 顆颗 點点 幫帮 簡简 無无 關关 開开 隻只 從从 倆俩 萬万 億亿
鐘钟 鎖锁 頁页 並并 雜杂 慮虑 啟启 話话 為为 進进 運运 動动 網网 絡络 練练 識识 別别 測测 調调 變变 採采 儘尽 僅仅 較较 負负 載载 貝贝 複复 換换 視视 訓训 構构 層层 盡尽 當当 現现 費费
儲储 軟软 執执 寫写 讀读 標标 題题 計计 強强 擬拟 編编 譯译 報报 聲声 鏡镜 劃划 設设 備备
"""
_SPELLING = {pair[0]: pair[1] for pair in _SIMPLIFIED.split()} | {
    "’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "‐": "-", "‑": "-", "−": "-", "〜": "~", "∼": "~",
    "\t": " ", "\r": " ", "✕": "×", "⩽": "≤", "≦": "≤", "⩾": "≥", "≧": "≥", "貳": "两", "⟶": "→", "⇒": "→",
}  # fmt: skip
_KEPT = frozenset("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻，。、㎳㎲")  # whose compatibility form would say something else
CJK = "\u3400-\u9fff"


def pattern_of(expression: str) -> re.Pattern[str]:
    r"""A pattern for requests. Words end where Chinese begins: in ASCII mode `\b` stands between "qps" and 不. Words that
    belong together are at most a few blanks apart: else a long run of them could be cut in too many ways."""
    return re.compile(expression.replace(r"\s*", r"\s{0,4}"), re.ASCII)


def one_spelling(raw: str) -> str:
    """The request as the patterns see it, character for character."""
    out = []
    for k, character in enumerate(raw):
        if character == "，" and 0 < k < len(raw) - 1 and _wide_digit(raw[k - 1]) and _wide_digit(raw[k + 1]):
            out.append(",")  # a thousands separator: all of the number is written full-width
            continue
        new = _SPELLING.get(character)
        if new is None:
            new = character if character in _KEPT else unicodedata.normalize("NFKC", character).lower()
        out.append(new if len(new) == 1 else character)
    return "".join(out)


def _wide_digit(character: str) -> bool:
    return "０" <= character <= "９"


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """A value and the words it was read from."""

    value: T
    span: Span


@dataclass
class Reading:
    """`taken`: the spans that some reader has understood; readers that come later leave them alone."""

    raw: str
    text: str
    taken: list[Span] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)

    def free(self, span: Span) -> bool:
        return all(end <= span[0] or span[1] <= start for start, end in self.taken)

    def take(self, span: Span) -> None:
        self.taken.append(span)

    def matches(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Matches that nobody has taken yet, also those that begin later within one that reaches into taken words."""
        position = 0
        while match := pattern.search(self.text, position):
            start, end = match.span()
            if self.free((start, max(end, start + 1))):
                yield match
                position = max(end, start + 1)
            else:
                inside = [b for a, b in self.taken if a <= start < b]
                position = max([start + 1, *inside])

    def words(self, span: Span) -> str:
        """The request's own words."""
        return self.raw[span[0] : span[1]].strip()

    def ask(self, field_name: str, text: str, *options: str) -> None:
        question = Question(field_name, text, options)
        if question not in self.questions:
            self.questions.append(question)
