"""Symbols of Rust are shown as the program's source has them. The names are those that the manual of rustc gives."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from pfs._read.places import rust, symbols
from pfs._read.places.symbols import Place

# The chapter "v0 Symbol Format" of the rustc book has these.
DOCUMENTED = {
    "_RNvMsr_NtCs3ssYzQotkvD_3std4pathNtB5_7PathBuf3newCs15kBYyAo9fc_7mycrate": "<std::path::PathBuf>::new",
    "_RNvCs15kBYyAo9fc_7mycrate7example": "mycrate::example",
    "_RNvMs_Cs4Cv8Wi1oAIB_7mycrateNtB4_7Example3foo": "<mycrate::Example>::foo",
    "_RNvXCs15kBYyAo9fc_7mycrateNtB2_7ExampleNtB2_5Trait3foo": "<mycrate::Example as mycrate::Trait>::foo",
    "_RNvMCs7qp2U7fqm6G_7mycrateNtB2_7Example3foo": "<mycrate::Example>::foo",
    "_RNvMs_Cs7qp2U7fqm6G_7mycrateNtB4_7Example3bar": "<mycrate::Example>::bar",
    "_RNvYNtCs15kBYyAo9fc_7mycrate7ExampleNtB4_5Trait7exampleB4_": "<mycrate::Example as mycrate::Trait>::example",
    "_RNCNvCsgStHSCytQ6I_7mycrate4main0B3_": "mycrate::main::{closure#0}",
    "_RNCNvCsgStHSCytQ6I_7mycrate4mains_0B3_": "mycrate::main::{closure#1}",
    "_RINvCsgStHSCytQ6I_7mycrate7examplelKj1_EB2_": "mycrate::example::<i32, 1>",
    "_RINvCs7qp2U7fqm6G_7mycrate7exampleFG0_RL1_hRL0_tEuEB2_": "mycrate::example::<for<'a, 'b> fn(&'a u8, &'b u16)>",
    "_RINvCs7qp2U7fqm6G_7mycrate7exampleKy12345678_EB2_": "mycrate::example::<305419896>",
    "_RNvNvMCsd9PVOYlP1UU_7mycrateINtB4_7ExamplepKpE3foo14EXAMPLE_STATIC": "<mycrate::Example<_, _>>::foo::EXAMPLE_STATIC",
    "_RINvCs7qp2U7fqm6G_7mycrate7exampleAtj8_EB2_": "mycrate::example::<[u16; 8]>",
    "_RINvCs7qp2U7fqm6G_7mycrate7exampleNtB2_7ExampleBw_EB2_": "mycrate::example::<mycrate::Example, mycrate::Example>",
    "_RINvMsY_NtCseXNvpPnDBDp_3std4pathNtB6_4Path3neweECs7qp2U7fqm6G_7mycrate": "<std::path::Path>::new::<str>",
    "_RNvNvNvCs7qp2U7fqm6G_7mycrate7EXAMPLE7___getit5___KEY": "mycrate::EXAMPLE::__getit::__KEY",
}
# The rest of the grammar. GNU c++filt reads them in the same way, besides types of constants.
OTHERS = {
    "_RINvNtCs6xxl1lAjzDf_1a5inner2cbKb0_Kce9_Kan3_EB4_": "a::inner::cb::<false, 'é', -3>",
    "_RNvNtCs6xxl1lAjzDf_1a5inneru8gdel_5qa": "a::inner::gödel",
    "_RINvC1a1fDNtC1b1TNtC1b4SendEL_E": "a::f::<dyn b::T + b::Send>",
    "_RINvC1a1fDINtC1b2FnThEEp6OutputtEL_E": "a::f::<dyn b::Fn<(u8,), Output = u16>>",
    "_RINvC1a1fFUKCPhOmEzE": 'a::f::<unsafe extern "C" fn(*const u8, *mut u32) -> !>',
    "_RINvC1a1fSRQhTlbuEE": "a::f::<[&&mut u8], (i32, bool, ())>",
    "_RINvC1a1fKRe616263_E": 'a::f::<"abc">',
    "_RINvC1a1fKVNtC1a1STj1_b1_EE": "a::f::<{a::S(1, true)}>",
    "_RNvC1a1f.llvm.1234567": "a::f",
    "_RNvC1a4ARGV.0": "a::ARGV.0",
}
NO_SYMBOLS = [
    "_R",
    "_RNv",
    "_RNvC1a",
    "_RNvC9a",
    "_Rust_begin",
    "_RNvC1a1fX",
    "_RB_",
    "_RINvC1a1fRL0_hE",
    "_RNvB2_1a",
    "_RNvC1a1f\0",
]


@pytest.mark.parametrize("symbol", DOCUMENTED)
def test_documented_names(symbol: str) -> None:
    assert rust.of_v0(symbol) == DOCUMENTED[symbol]


@pytest.mark.parametrize("symbol", OTHERS)
def test_other_names(symbol: str) -> None:
    assert rust.of_v0(symbol) == OTHERS[symbol]


@pytest.mark.parametrize("symbol", NO_SYMBOLS)
def test_what_is_no_name_stays(symbol: str) -> None:
    assert rust.of_v0(symbol) is None
    assert symbols._demangled(symbol) == symbol


def test_a_part_of_any_symbol_is_a_name_or_none() -> None:
    for symbol in DOCUMENTED:
        for end in range(2, len(symbol)):
            rust.of_v0(symbol[:end])
            rust.of_v0(symbol[:end] + symbol[end + 1 :])


def test_a_name_that_repeats_itself_ends_soon() -> None:
    """Each pair has the pair before it twice: 2 to the power of 40 names."""
    symbol, last = "_RINvC1a1f", ""
    for _ in range(40):
        at = len(symbol) - 2
        symbol += f"T{last}{last}E" if last else "ThhE"
        last = f"B{_base62(at)}"
    begin = time.process_time()
    assert rust.of_v0(symbol + "E") is None
    assert rust.of_v0("_R" + "NvC1a" * 9 + "Y" * 5000) is None
    assert time.process_time() - begin < 1


def _base62(value: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    text = ""
    value -= 1
    while value >= 0:
        text = digits[value % 62] + text
        value = value // 62 if value >= 62 else -1
    return text + "_"


def test_names_of_the_older_mangling() -> None:
    trait = "_$LT$alloc..string..String$u20$as$u20$core..fmt..Debug$GT$"
    for symbol, name in {
        "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE": "core::fmt::Formatter::pad",
        f"_ZN{len(trait)}{trait}3fmt17h0123456789abcdefE": "<alloc::string::String as core::fmt::Debug>::fmt",
        "_ZN4main4main18h1e714a2e23ed7db23E": "main::main::h1e714a2e23ed7db23",  # a name of C++: a hash has sixteen digits
    }.items():
        assert symbols._demangled(symbol) == name


def test_a_place_has_the_name_of_rust(tmp_path: Path) -> None:
    """A file of code whose symbols are such names, as a compiler of Rust makes it."""
    (tmp_path / "a.s").write_text(
        "".join(f".globl {name}\n.type {name}, @function\n{name}: ret\nret\n.size {name}, 2\n" for name in DOCUMENTED)
    )
    subprocess.run(["cc", "-shared", "-nostdlib", "-o", tmp_path / "a.so", tmp_path / "a.s"], check=True)
    said = subprocess.run(["nm", tmp_path / "a.so"], capture_output=True, text=True, check=True).stdout
    places = {name: int(address, 16) for address, name in re.findall(r"^(\w+) T (_R\w+)$", said, re.MULTILINE)}
    assert places.keys() == DOCUMENTED.keys()
    for name, address in places.items():
        assert symbols.symbol_of(Place(str(tmp_path / "a.so"), address, "")) == DOCUMENTED[name]
        assert symbols.symbol_of(Place(str(tmp_path / "a.so"), address + 1, "")) == DOCUMENTED[name] + "+0x1"


@pytest.mark.skipif(shutil.which("rustc") is None or shutil.which("c++filt") is None, reason="rustc or c++filt is not installed")
def test_the_binutils_read_the_same_names(tmp_path: Path) -> None:
    """A small program of Rust has some hundred symbols of its library."""
    (tmp_path / "a.rs").write_text(
        "use std::{collections::HashMap, sync::Mutex};\n"
        'fn f<const N: usize, T: Fn(u32) -> u32>(t: &dyn Fn(&str) -> u32, g: T) -> u32 { t("") + g(N as u32) }\n'
        "fn main() { let m = Mutex::new(HashMap::<String, Vec<[u8; 3]>>::new());\n"
        "  std::thread::scope(|s| { s.spawn(|| m.lock().unwrap().insert(String::new(), vec![])); });\n"
        '  println!("{:?} {}", m, f::<7, _>(&|s| s.len() as u32, |n| n + 1)); }\n'
    )
    subprocess.run(
        ["rustc", "-C", "symbol-mangling-version=v0", "-o", tmp_path / "a", tmp_path / "a.rs"], check=True, timeout=120
    )
    said = subprocess.run(["nm", tmp_path / "a"], capture_output=True, text=True, check=True).stdout
    mangled = sorted(set(re.findall(r" (_R\w+)$", said, re.MULTILINE)))
    assert len(mangled) > 100
    names = subprocess.run(["c++filt"], input="\n".join(mangled), capture_output=True, text=True, check=True).stdout.splitlines()
    for symbol, name in zip(mangled, names, strict=True):
        plain = re.sub(r"\[[0-9a-f]{8,16}\]", "", name)  # the hash of a crate
        plain = re.sub(r"\b(\d+|true|false): (?:[iu](?:\d+|size)|bool)\b", r"\1", plain)
        assert rust.of_v0(symbol) == plain
