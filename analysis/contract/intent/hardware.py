"""GPU names and architectures: "on an H100", "RTX 4090", sm_90, 算力8.6, Hopper."""

from __future__ import annotations

from stitchcuda.analysis.contract.intent.reading import Found, Reading, Span, pattern_of
from stitchcuda.analysis.contract.types import Hardware

# Compute capabilities: NVIDIA's list of CUDA GPUs. The name in a contract is the one on the left.
_DEVICES: tuple[tuple[str, str, str], ...] = (
    ("GH200", "sm_90", r"gh200"),
    ("GB300", "sm_103", r"gb300"),
    ("GB200", "sm_100", r"gb200"),
    ("GB10", "sm_121", r"gb10|dgx spark"),
    *((name, arch, name.lower()) for name, arch in (
        ("H100", "sm_90"), ("H200", "sm_90"), ("H800", "sm_90"), ("H20", "sm_90"), ("B100", "sm_100"), ("B200", "sm_100"), ("B300", "sm_103"),
        ("A100", "sm_80"), ("A800", "sm_80"), ("A30", "sm_80"), ("V100", "sm_70"), ("P100", "sm_60"), ("K80", "sm_37"), ("M60", "sm_52"),
        ("L40S", "sm_89"), ("L40", "sm_89"), ("L20", "sm_89"), ("L4", "sm_89"), ("L2", "sm_89"), ("A10G", "sm_86"), ("A10", "sm_86"), ("A40", "sm_86"), ("A16", "sm_86"), ("A2", "sm_86"),
        ("T4", "sm_75"), ("P40", "sm_61"), ("P4", "sm_61"),
    )),
    ("RTX PRO 6000", "sm_120", r"rtx ?pro ?6000"),
    ("RTX 6000 Ada", "sm_89", r"rtx ?6000 ?ada|(?:rtx )?6000 ada"),
    ("RTX 5000 Ada", "sm_89", r"rtx ?5000 ?ada"),
    ("RTX 4000 Ada", "sm_89", r"rtx ?4000 ?ada"),
    ("RTX A6000", "sm_86", r"(?:rtx ?)?a6000"),
    ("RTX A5000", "sm_86", r"(?:rtx ?)?a5000"),
    ("RTX A4000", "sm_86", r"(?:rtx ?)?a4000"),
    ("RTX A2000", "sm_86", r"(?:rtx ?)?a2000"),
    ("Quadro RTX 8000", "sm_75", r"quadro ?rtx ?8000"),
    ("Quadro RTX 6000", "sm_75", r"quadro ?rtx ?6000"),
    ("Quadro RTX 5000", "sm_75", r"quadro ?rtx ?5000"),
    ("Titan V", "sm_70", r"titan ?v"),
    ("Titan RTX", "sm_75", r"titan ?rtx"),
    ("Jetson Thor", "sm_110", r"jetson(?: agx)? ?thor"),
    ("Jetson Orin", "sm_87", r"jetson(?: agx| nx| nano)? ?orin(?: nano| nx)?|agx orin|orin nx|orin nano"),
    ("Jetson Xavier", "sm_72", r"jetson(?: agx| nx)? ?xavier(?: nx)?|agx xavier|xavier nx"),
    ("Jetson Nano", "sm_53", r"jetson nano"),
)  # fmt: skip
_SHORT = frozenset(
    {
        "A2",
        "A10",
        "A16",
        "A30",
        "A40",
        "L2",
        "L4",
        "L20",
        "L40",
        "T4",
        "P4",
        "P40",
        "M60",
        "H20",
        "K80",
        "B100",
        "B200",
        "B300",
        "P100",
    }
)
_EDGE = r"(?<![a-z0-9_./])(?:{})(?![a-z0-9_])"
_NAMED = tuple((name, arch, pattern_of(_EDGE.format(pattern))) for name, arch, pattern in _DEVICES)
_SERIES = {"20": "sm_75", "30": "sm_86", "40": "sm_89", "50": "sm_120"}
_RTX = pattern_of(
    r"(?<![a-z0-9_.])(?:geforce )?(?:(?P<brand>rtx|geforce|nvidia)[ -]?)?(?P<number>(?P<series>[2345]0)[5-9]0)(?P<kind>(?: ?ti)?(?: ?super)?)(?P<laptop> ?d| ?laptop| ?mobile)?(?![a-z0-9_.%])"
)
_GTX = pattern_of(
    r"(?<![a-z0-9_])gtx[ -]?(?P<number>(?P<series>9|10|16)[5-8]0)(?P<kind>(?: ?ti)?(?: ?super)?)(?![a-z0-9_])"
)
_GTX_SERIES = {"9": "sm_52", "10": "sm_61", "16": "sm_75"}
_AFTER_NAME = pattern_of(
    r"(?:[ -]?(?:sxm\d?|pcie|nvl|hbm\d?e?|super ?pod|tensor core|data ?center))*(?:\s?[-(]?\s?(?:24|16|32|40|48|64|80|94|96|141|192|8|12)\s*(?:gi?b|g)\b\)?)?(?:\s?(?:sxm\d?|pcie))?(?:\s?(?:gpus?|显卡|卡|cards?))?"
)
_SIZE_BEFORE = pattern_of(r"(?:\d+\s*(?:gi?b|g)\s*(?:的)?\s*)?(?:(?:nvidia|tesla|geforce|英伟达)(?:的)?\s*)*$")
_CONTEXT_BEFORE = pattern_of(
    r"(?:\b(?:on|for|using|targeting|target|an?|the|our|my|nvidia|tesla|gpu:?|hardware:?|device:?|geforce|gpu is|gpu =|to|with)\s+|在|用|于|显卡|机器|平台|硬件|设备|gpu|卡|是|为|：|:)\s*(?:an? |the |my |our |one |single |一?[块张个])*$"
)
_CONTEXT_AFTER = pattern_of(r"\s*(?:上|gpus?\b|显卡|卡|平台|cards?\b|服务器|机器|boards?\b|instance)")
_ARCH = pattern_of(
    r"(?<![a-z0-9])(?:sm|compute)[_ -]?(?P<arch>\d{2,3}[af]?)(?![a-z0-9.])|(?:compute capability|(?<![a-z0-9])cc|(?<![a-z0-9])sm|计算能力|算力)\s*(?:of |is |为|是|:|=)?\s*(?P<major>\d{1,2})\.(?P<minor>\d)(?P<suffix>[af]?)(?![\d])"
)
_FAMILIES = {
    "rtx 20": ("sm_75",), "rtx 30": ("sm_86",), "rtx 40": ("sm_89",), "rtx 50": ("sm_120",),
    "hopper": ("sm_90",), "ada": ("sm_89",), "ada lovelace": ("sm_89",), "volta": ("sm_70",), "turing": ("sm_75",),
    "ampere": ("sm_80", "sm_86", "sm_87"), "blackwell": ("sm_100", "sm_103", "sm_120"), "pascal": ("sm_60", "sm_61"), "maxwell": ("sm_50", "sm_52"),
}  # fmt: skip
_FAMILY = pattern_of(
    r"(?<![a-z0-9_])(?P<family>ada lovelace|rtx [2345]0(?=[ -]?(?:series|系列?))|hopper|volta|turing|ampere|blackwell|pascal|maxwell|ada(?=\s*(?:gpu|架构|architecture|generation|显卡)))(?![a-z0-9_])"
)
_FOREIGN = pattern_of(
    r"(?<![a-z0-9_])(?:mi[23]\d\d[xa]?|radeon[a-z0-9 ]*|instinct|gaudi ?\d?|tpu ?v?\d?|apple m\d|昇腾(?:\s*\d+b?)?|ascend(?: ?\d+b?)?|寒武纪)(?![a-z0-9_])"
)
_NOT_THIS = pattern_of(
    r"(?:\b(?:not|no|without|except|never|rather than|instead of|unlike|than|than on|from|vs\.?|versus|compared (?:to|with)|don't have|no access to)\s+(?:on\s+|for\s+|have\s+|use\s+|to\s+)?(?:an?\s+|the\s+|our\s+)?|不(?:是|用|要|在|考虑)|而非|而不是|没有|比(?:在)?|从)\s*(?:nvidia |tesla )?$"
)


def read_hardware(reading: Reading) -> tuple[Hardware, list[Found[None]]]:
    """The one device and architecture of the request; asks where it names several or one that is no CUDA GPU."""
    devices: dict[str, tuple[str, Span]] = {}
    for name, arch, span in _devices(reading):
        if reading.free(span):
            whole = _whole(reading.text, span)
            reading.take(whole)
            if not _NOT_THIS.search(reading.text, max(0, span[0] - 32), span[0]):
                devices.setdefault(name, (arch, span))
    archs: dict[str, Span] = {}
    for match in list(reading.matches(_ARCH)):
        arch = f"sm_{match['arch']}" if match["arch"] else f"sm_{match['major']}{match['minor']}{match['suffix']}"
        reading.take(match.span())
        if not _NOT_THIS.search(reading.text, max(0, match.start() - 32), match.start()):
            archs.setdefault(arch, match.span())
    families = [(m["family"], m.span()) for m in reading.matches(_FAMILY)]
    for _, span in families:
        reading.take(span)
    for match in list(reading.matches(_FOREIGN)):
        reading.take(match.span())
        reading.ask("hardware", f"{reading.words(match.span())!r} runs no CUDA: which NVIDIA GPU is meant?")
    if len(devices) > 1:
        reading.ask("hardware", "Which of these GPUs is the contract about?", *devices)
        return Hardware(), []
    if len(archs) > 1:
        reading.ask("hardware", "Which of these architectures is the contract about?", *archs)
        return Hardware(), []
    if devices:
        ((name, (known, span)),) = devices.items()
        found = [Found(None, span), *(Found(None, place) for place in archs.values())]
        stated = next(iter(archs), known)
        if stated.rstrip("af") != known:
            reading.ask("hardware", f"{name} is {known}, not {stated}: which is meant?", known, stated)
            return Hardware(), []
        return Hardware(name, stated), found
    if archs:
        ((arch, span),) = archs.items()
        return Hardware(None, arch), [Found(None, span)]
    if families:
        choices = [arch for family, _ in families for arch in _FAMILIES[family]]
        if len(set(choices)) == 1:
            return Hardware(None, choices[0]), [Found(None, families[0][1])]
        words = " and ".join(dict.fromkeys(reading.words(span) for _, span in families))
        reading.ask("hardware", f"Which architecture of {words} is meant?", *dict.fromkeys(choices))
    return Hardware(), []


def _devices(reading: Reading) -> list[tuple[str, str, Span]]:
    text, out = reading.text, []
    for name, arch, pattern in _NAMED:
        for match in reading.matches(pattern):
            if (
                name not in _SHORT
                or reading.raw[match.start()].isupper()
                and name not in ("L2", "P4")
                or _in_context(text, match.span())
            ):
                out.append((name, arch, match.span()))
    for match in reading.matches(_RTX):
        if match["brand"] or _in_context(text, match.span()) or match["kind"]:
            kind = " Ti" * ("ti" in match["kind"]) + " SUPER" * ("super" in match["kind"])
            out.append((f"RTX {match['number']}{kind}", _SERIES[match["series"]], match.span()))
    for match in reading.matches(_GTX):
        kind = " Ti" * ("ti" in match["kind"]) + " SUPER" * ("super" in match["kind"])
        out.append((f"GTX {match['number']}{kind}", _GTX_SERIES[match["series"]], match.span()))
    return sorted(out, key=lambda one: (one[2][0], -one[2][1]))


def _in_context(text: str, span: Span) -> bool:
    return bool(_CONTEXT_BEFORE.search(text, max(0, span[0] - 24), span[0]) or _CONTEXT_AFTER.match(text, span[1]))


def _whole(text: str, span: Span) -> Span:
    """With what belongs to the name: maker, form factor, memory size."""
    before = _SIZE_BEFORE.search(text, max(0, span[0] - 24), span[0])
    after = _AFTER_NAME.match(text, span[1])
    return (before.start() if before else span[0]), (after.end() if after else span[1])
