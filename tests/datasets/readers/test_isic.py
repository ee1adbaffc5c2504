import pytest

from appl.datasets.readers.isic import read_isic
from appl.errors import DataError
from tests.datasets.readers.trees import fill, names_in, some, touch

COLUMNS = ["MEL", "NV", "BCC", "AKIEC", "BKL", "DF", "VASC"]
# The classes of seven images, none where alphabet or file order would put it.
TRUTH = {f"ISIC_{i:07d}": name for i, name in enumerate(["VASC", *COLUMNS[:6]])}
GROUND = "ISIC2018_Task3_Training_GroundTruth"


def write_table(path, truth=TRUTH):
    rows = [",".join(["image", *COLUMNS])]
    for image, name in truth.items():
        rows.append(",".join([image, *("1.0" if c == name else "0.0" for c in COLUMNS)]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(rows) + "\n")
    return path


def challenge(root):
    write_table(root / GROUND / f"{GROUND}.csv")
    for image in TRUTH:
        touch(root / "ISIC2018_Task3_Training_Input" / f"{image}.jpg")


def flat(root):
    write_table(root / f"{GROUND}.csv")
    for image in TRUTH:
        touch(root / f"{image}.jpg")


def ham10000(root):
    rows = ["lesion_id,image_id,dx,dx_type,age,sex,localization"]
    for number, (image, name) in enumerate(TRUTH.items()):
        rows.append(f"HAM_{number // 2},{image},{name.lower()},histo,50,male,back")
        touch(root / f"HAM10000_images_part_{1 + number % 2}" / f"{image}.jpg")
    (root / "HAM10000_metadata.csv").write_text("\n".join(rows) + "\n")


def folders(root):
    for image, name in TRUTH.items():
        touch(root / name / f"{image}.webp")


@pytest.mark.parametrize("make", [challenge, flat, ham10000, folders])
def test_every_layout_gives_every_image_its_class(tmp_path, make):
    make(tmp_path)
    listing = read_isic(tmp_path)
    assert {path.stem: name for name, f in listing.files.items() for path in f} == TRUTH
    assert list(listing.files) == sorted(COLUMNS)
    assert listing.provenance.kind == "partial" and listing.missing == ()


def test_a_missing_file_is_named_and_shifts_no_label(tmp_path):
    flat(tmp_path)
    (tmp_path / "ISIC_0000002.jpg").unlink()
    listing = read_isic(tmp_path)
    found = {path.stem: name for name, f in listing.files.items() for path in f}
    assert found == {image: name for image, name in TRUTH.items() if image != "ISIC_0000002"}
    assert listing.missing == ("ISIC_0000002",)
    assert "1 listed files are not there, 'ISIC_0000002' the first" in listing.provenance.remark


def test_files_of_a_class_are_sorted(tmp_path):
    write_table(tmp_path / f"{GROUND}.csv", {"ISIC_9": "NV", "ISIC_1": "NV", "ISIC_5": "NV"})
    for image in ("ISIC_5", "ISIC_9", "ISIC_1"):
        touch(tmp_path / f"{image}.jpg")
    assert names_in(read_isic(tmp_path).files["NV"]) == ["ISIC_1.jpg", "ISIC_5.jpg", "ISIC_9.jpg"]


@pytest.mark.parametrize("make", [flat, ham10000])
def test_lesions_are_groups(tmp_path, make):
    make(tmp_path)
    if make is flat:
        rows = [f"{image},HAM_{i // 2},histo" for i, image in enumerate(TRUTH)]
        text = "\n".join(["image,lesion_id,diagnosis_confirm_type", *rows])
        (tmp_path / "ISIC2018_Task3_Training_LesionGroupings.csv").write_text(text)
    groups = {path.stem: group for path, group in read_isic(tmp_path).groups.items()}
    assert groups == {image: f"HAM_{i // 2}" for i, image in enumerate(TRUTH)}


def test_groups_of_a_pack_are_read_from_the_json_beside_it(tmp_path):
    fill(tmp_path / "pack", some(["MEL", "NV"], 2))
    notes = '{"group_of": {"MEL/0000": "lesion 1", "NV/0001": "lesion 2"}}'
    (tmp_path / "pack.json").write_text(notes)
    groups = read_isic(tmp_path / "pack").groups
    assert groups == {
        tmp_path / "pack" / "MEL" / "0000.jpg": "lesion 1",
        tmp_path / "pack" / "NV" / "0001.jpg": "lesion 2",
    }
    (tmp_path / "pack.json").write_text('{"group_of": ["MEL/0000"]}')
    with pytest.raises(DataError, match=r"pack\.json: group_of is no object"):
        read_isic(tmp_path / "pack")
    (tmp_path / "pack.json").write_text("{")
    with pytest.raises(DataError, match=r"pack\.json is no JSON"):
        read_isic(tmp_path / "pack")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("ISIC_9,1.0,1.0,0,0,0,0,0", "line 9: 'ISIC_9' has not one class"),
        ("ISIC_9,0,0,0,0,0,0,0", "line 9: 'ISIC_9' has not one class"),
        ("ISIC_9,0.5,1.0,0,0,0,0,0", "line 9: 'ISIC_9' has not one class"),
        ("ISIC_9,1.0", "line 9: 'ISIC_9' has not one class"),
        ("ISIC_0000000,1.0,0,0,0,0,0,0", "line 9: 'ISIC_0000000' is there a second time"),
    ],
)
def test_a_row_that_is_not_one_hot_is_named(tmp_path, row, message):
    flat(tmp_path)
    with (tmp_path / f"{GROUND}.csv").open("a") as table:
        table.write(row + "\n")
    with pytest.raises(DataError, match=message):
        read_isic(tmp_path)


def test_other_mistakes_are_named(tmp_path):
    table = write_table(tmp_path / f"{GROUND}.csv")
    with pytest.raises(DataError, match="names 7 images, none of which is in"):
        read_isic(tmp_path)
    touch(tmp_path / "a" / "ISIC_0000000.jpg")
    touch(tmp_path / "b" / "ISIC_0000000.png")
    with pytest.raises(DataError, match="have one name; remove one of them"):
        read_isic(tmp_path)
    table.write_text("image,MEL,NV\n")
    with pytest.raises(DataError, match="expected the columns image, MEL, NV, BCC"):
        read_isic(tmp_path)
