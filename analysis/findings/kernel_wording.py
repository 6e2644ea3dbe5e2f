"""How findings about device code name conditions, lanes and places."""

from __future__ import annotations

from collections.abc import Mapping

from stitchcuda.analysis.kernel.lanes import lanes_of
from stitchcuda.analysis.program.ir import Program, Site


def written(program: Program, sources: Mapping[str, bytes], site: Site, most: int = 60) -> str:
    """What stands at a site, on one line; "" when it is long or not there."""
    place = program.locate(site)
    text = sources.get(site.path, b"")[place.start : place.end].decode(errors="replace")
    text = " ".join(text.split())
    return text if len(text) <= most else ""


def lanes(mask: int) -> str:
    """ "lane 0", "lanes 0-15", "lanes 0, 2, 4, ..." of a warp."""
    members = lanes_of(mask)
    if len(members) == 1:
        return f"lane {members[0]}"
    if members[-1] - members[0] == len(members) - 1:
        return f"lanes {members[0]}-{members[-1]}"
    listed = ", ".join(str(m) for m in members[:3])
    return f"lanes {listed}, ..." if len(members) > 4 else f"lanes {', '.join(str(m) for m in members)}"
