"""A file that changed is parsed from the tree of the text before: what comes out must be what a new start gives."""

import random
import re

import pytest
from stitchcuda.analysis.program.cuda import LoweringCache, lower_module
from stitchcuda.analysis.syntax.differences import differences, edited
from stitchcuda.analysis.syntax.parse import Syntax, parse_cuda, parse_tree
from tree_sitter import Tree

TEXT = b"""
#define STEP(s) cudaStreamSynchronize(s)
template <typename T> __global__ void scale(T* out, const T* in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = (T)(in[i]) * static_cast<T>(2);  // twice
}
struct Buffer { float* data; std::vector<int> sizes; ~Buffer() { cudaFree(data); } };
void run(Buffer& b, cudaStream_t s, int n) {
    dim3 grid(n / 256, 1), block(256);
    for (int k = 0; k < 4; ++k) {
        scale<float><<<grid, block, 0, s>>>(b.data, b.data, n);
        STEP(s);
    }
    auto f = [&](int x) { return a < b > (c); };
}
int main() {
    Buffer b;
    run(b, 0, 1024);
    return 0;
}
"""
STATEMENTS = (
    b"    int i = 0;\n",
    b"    g<<<1, 2>>>(a);\n",
    b"    T(x);\n",
    b"    a * b;\n",
    b"// {\n",
    b"\n",
    b"#define Q 1\n",
)


def nodes(tree: Tree) -> list[tuple[object, ...]]:
    out: list[tuple[object, ...]] = []
    cursor = tree.walk()
    while True:
        node = cursor.node
        assert node is not None
        out.append((node.type, node.start_byte, node.end_byte, node.start_point, node.end_point, cursor.field_name))
        if cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return out


def changed(text: bytes, chance: random.Random) -> bytes:
    """The text after a few edits at different places."""
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(text))
        line = text.find(b"\n", at) + 1
        match chance.randrange(5):
            case 0:
                text = text[:line] + chance.choice(STATEMENTS) + text[line:]
            case 1:
                text = text[:line] + text[text.find(b"\n", line) + 1 :]
            case 2 if (word := re.compile(rb"\w+").search(text, at)) is not None:
                text = text[: word.start()] + chance.choice((b"x", b"float", b"other_name", b"7")) + text[word.end() :]
            case 3:
                text = text[:at] + text[at + 1 :]
            case _:
                text = text[:at] + chance.choice((b" ", b";", b"(", b"}", b"\xc3\xa9")) + text[at:]
    return text


@pytest.mark.parametrize("seed", range(40))
def test_differences_say_all_that_differs(seed: int) -> None:
    new = changed(TEXT * 3, random.Random(seed))
    made, at = b"", 0
    for each in differences(TEXT * 3, new):
        made += (TEXT * 3)[at : each.start] + new[each.new_start : each.new_end]
        at = each.end
        assert len(made) == each.new_end
    assert made + (TEXT * 3)[at:] == new


def test_places_far_apart_are_told_apart() -> None:
    old = TEXT * 20
    new = old.replace(b"k < 4", b"k < 44", 1)[::-1].replace(b"4201", b"8402", 1)[::-1]
    first, last = differences(old, new)
    assert first.end - first.start <= 80
    assert last.start > len(old) - len(TEXT)
    assert len(differences(old, old)) == 0


@pytest.mark.parametrize("seed", range(40))
def test_a_tree_parsed_again_is_that_of_a_new_start(seed: int) -> None:
    chance = random.Random(seed)
    before = parse_cuda(TEXT)
    assert not before.error_bytes
    compared = 0
    for _ in range(10):
        text = changed(before.text, chance)
        again = parse_cuda(text, before)
        fresh = parse_cuda(text)
        assert (again.masked, again.error_bytes) == (fresh.masked, fresh.error_bytes)
        assert nodes(again.tree) == nodes(fresh.tree)
        if not again.error_bytes and not again.masked:
            before = again
            compared += 1
    assert compared


def test_the_tree_before_stays_what_it_was() -> None:
    before = Syntax(TEXT, parse_tree(TEXT))
    was = nodes(before.tree)
    edited(before.tree, TEXT, TEXT.replace(b"int n", b"long number"))
    assert nodes(before.tree) == was


@pytest.mark.parametrize("seed", range(5))
def test_a_file_lowered_again_is_what_a_new_start_gives(seed: int) -> None:
    chance = random.Random(seed)
    cache = LoweringCache()
    text = TEXT
    for _ in range(8):
        assert lower_module("a.cu", text, cache=cache) == lower_module("a.cu", text)
        text = changed(text if chance.randrange(2) else TEXT, chance)


def test_the_tree_of_the_file_that_is_looked_at_is_there_for_its_first_edit() -> None:
    cache = LoweringCache()
    cache.parse("other.cu", TEXT)
    assert cache.syntax["other.cu"] is None, "most files never change"
    cache.look_at("a.cu")
    first = cache.parse("a.cu", TEXT)
    assert cache.syntax["a.cu"] is first
    second = cache.parse("a.cu", TEXT.replace(b"1024", b"2048"))
    assert cache.syntax["a.cu"] is second
    assert nodes(second.tree) == nodes(parse_tree(second.text))


def test_one_tree_is_kept_of_files_that_were_looked_at_and_do_not_change() -> None:
    cache = LoweringCache()
    for path in ("a.cu", "b.cu", "c.cu"):
        cache.look_at(path)
        cache.parse(path, TEXT)
    assert [path for path, syntax in cache.syntax.items() if syntax is not None] == ["c.cu"]
    cache.parse("c.cu", TEXT + b"// more\n")
    cache.look_at("a.cu")
    assert cache.syntax["c.cu"] is not None, "it changes"
    cache.look_at("b.cu")
    cache.parse("b.cu", TEXT.replace(b"int main", b"int ( main"))
    assert cache.syntax["b.cu"] is None or not cache.syntax["b.cu"].error_bytes
    cache.forget("b.cu")
    cache.look_at("a.cu")
    assert "b.cu" not in cache.syntax
