import pytest

from appl.datasets.provenance import published_counts
from appl.datasets.readers.chestx import read_chestx, single_findings
from tests.datasets.readers.trees import touch

SEVEN = [
    "Atelectasis", "Cardiomegaly", "Effusion", "Infiltration", "Mass", "Nodule", "Pneumothorax"
]  # fmt: skip
ROWS = {
    "00000001_000": "Cardiomegaly",
    "00000001_001": "Cardiomegaly|Emphysema",  # two findings
    "00000001_002": "Effusion|Mass",  # two of the seven
    "00000002_000": "No Finding",
    "00000003_000": "Pneumonia",  # alone, but not used
    "00000003_001": "Hernia",
    "00000004_000": "Mass",
    "00000004_001": "Mass",
    "00000005_000": "Nodule",
}
USED = {
    "00000001_000": "Cardiomegaly",
    "00000004_000": "Mass",
    "00000004_001": "Mass",
    "00000005_000": "Nodule",
}


def write_table(root, name="Data_Entry_2017.csv"):
    head = "Image Index,Finding Labels,Follow-up #,Patient ID"
    rows = [f"{image}.png,{finding},0,{image[:8]}" for image, finding in ROWS.items()]
    root.mkdir(parents=True, exist_ok=True)
    (root / name).write_text("\n".join([head, *rows]) + "\n")
    return root / name


@pytest.mark.golden
def test_exactly_one_finding_of_seven(tmp_path):
    assert sorted(published_counts("chestx")) == SEVEN
    assert single_findings(write_table(tmp_path)) == USED


@pytest.mark.parametrize(
    ("table", "folder_of"),
    [
        ("Data_Entry_2017.csv", lambda i: "images"),
        ("Data_Entry_2017.csv", lambda i: f"images_{1 + i % 12:03d}/images"),
        ("Data_Entry_2017_v2020.csv", lambda i: "images"),
        ("Data_Entry_2017.csv", lambda i: "."),
    ],
)
def test_every_layout_gives_every_image_its_finding(tmp_path, table, folder_of):
    write_table(tmp_path, table)
    for number, image in enumerate(ROWS):
        touch(tmp_path / folder_of(number) / f"{image}.png")
    listing = read_chestx(tmp_path)
    assert {path.stem: name for name, f in listing.files.items() for path in f} == USED
    assert listing.splits == {"test": ("Cardiomegaly", "Mass", "Nodule")}
    assert listing.provenance.kind == "partial"


def test_part_of_the_archives_is_a_partial_copy(tmp_path):
    write_table(tmp_path)
    touch(tmp_path / "images_001" / "images" / "00000004_001.png")
    listing = read_chestx(tmp_path)
    assert {path.stem: name for name, f in listing.files.items() for path in f} == {
        "00000004_001": "Mass"
    }
    assert listing.missing == ("00000001_000", "00000004_000", "00000005_000")
    assert str(listing.provenance).startswith(
        "partial: 1 of 7 classes, 1 of 25,848 images; 3 listed"
    )


def test_class_folders_and_patients_as_groups(tmp_path):
    for image, finding in USED.items():
        touch(tmp_path / finding / f"{image}.webp")
    listing = read_chestx(tmp_path)
    assert listing.counts == {"Cardiomegaly": 1, "Mass": 2, "Nodule": 1}
    assert {path.stem: patient for path, patient in listing.groups.items()} == {
        image: image[:8] for image in USED
    }
