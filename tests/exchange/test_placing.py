import os
import unicodedata
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from appl.exchange.placing import RESERVED, Names, class_folders, file_stem, file_suffix

ODD = st.sampled_from(
    [
        "..",
        "a/b",
        "a:b",
        "/etc/passwd",
        "con",
        "NUL.txt",
        "x ",
        "X",
        "x",
        "é",
        "e\u0301",
        "🌿" * 90,
        "",
    ]
)
NAME = ODD | st.text(st.characters(exclude_categories=("Cs",)), max_size=300)


def is_safe(name: str) -> bool:
    return (
        0 < len(os.fsencode(name)) <= 200
        and name not in (".", "..")
        and not set(name) & set('/\\:*?"<>|')
        and not any(ord(c) < 32 for c in name)
        and name == name.strip(" ")
        and not name.endswith(".")
        and name.partition(".")[0].strip().casefold() not in RESERVED
    )


@given(st.lists(NAME, unique=True, max_size=12))
def test_each_class_has_one_safe_folder_of_its_own(names: list[str]) -> None:
    folders = class_folders(names)
    assert list(folders) == names and all(is_safe(folder) for folder in folders.values())
    spelled = {unicodedata.normalize("NFC", folder).casefold() for folder in folders.values()}
    assert len(spelled) == len(names)
    assert not any(folder.startswith("_") for folder in folders.values())


@given(NAME, st.binary(max_size=20))
def test_a_file_keeps_a_safe_part_of_its_name(text: str, foreign: bytes) -> None:
    for path in (Path(f"{text}.png"), Path(os.fsdecode(foreign.replace(b"\0", b"") + b".PNG"))):
        assert is_safe(f"{file_stem(path)}{file_suffix(path)}")
    assert file_suffix(Path("a.png")) == file_suffix(Path("a.PNG")) == ".png"
    assert file_suffix(Path("a.p g")) == file_suffix(Path("a")) == ""


def test_the_second_of_a_name_has_a_number() -> None:
    names = Names()
    assert [names.take("a", ".png") for _ in range(3)] == ["a.png", "a-2.png", "a-3.png"]
    assert names.take("A", ".png") == "A-4.png"
    assert names.take("a-2", ".png") == "a-2-2.png"
