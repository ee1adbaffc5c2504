import numpy as np
import pytest
from PIL import Image

import appl
from appl import FewShotLabeler
from appl.errors import ApplError, DataError
from appl.settings.files import with_changes
from tests.labelling.conftest import CLASSES, stripes, write_tree

SHORT = with_changes(appl.SolveSettings.preset("robust"), adaptation={"n_iterations": 3})


def new_labeler(**settings):
    return FewShotLabeler.from_pretrained("resnet10", size_px=32, solving=SHORT, **settings)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    tree = write_tree(tmp_path_factory.mktemp("labeler") / "given")
    return tree, new_labeler().fit(tree / "support", tree / "pile")


def test_labels_of_the_pile(fitted, tmp_path):
    _, labeler = fitted
    result = labeler.label_pile()
    assert len(result) == 24 and {row.label for row in result} == set(CLASSES)
    result.to_csv(tmp_path / "labels.csv")
    result.to_html(tmp_path / "report.html")
    assert (tmp_path / "labels.csv").read_text().count("\n") == 25
    assert "<html" in (tmp_path / "report.html").read_text(encoding="utf-8")
    frame = result.to_pandas()
    assert list(frame["label"]) == [row.label for row in result]


def test_an_audit_and_an_export_from_python(tmp_path):
    tree = write_tree(tmp_path / "given")
    labeler = new_labeler(adapt=False, target_error=0.1).fit(tree / "support", tree / "pile")
    result = labeler.label_pile()
    page = result.draw_audit(wanted=0.2)
    assert page.name == "audit.html" and page.is_file()
    table = page.with_name("audit.csv")
    filled = table.read_text(encoding="utf-8").replace(",,\n", ",right,\n")
    table.write_text(filled, encoding="utf-8")
    found = result.certify(table)
    assert found.n_wrong == 0 and found.is_kept and 0 < found.at_most <= 0.2
    # Accepted labels, handed on, are the examples of another labeler.
    examples = result.export("parquet", tmp_path / "labels.parquet")
    again = new_labeler(adapt=False).fit(examples, tree / "support")
    assert len(again.model.example_names) == found.n_accepted
    result.to_html(tmp_path / "report.html")
    assert "0 are wrong" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_predict_takes_files_arrays_and_images_and_is_pure(fitted):
    tree, labeler = fitted
    path = tree / "pile" / "1-0.png"
    image = Image.open(path)
    same = [str(path), path, image, np.asarray(image)]
    probs = labeler.predict_proba(same)
    assert probs.shape == (4, 3) and np.allclose(probs, probs[0], atol=1e-6)
    assert labeler.predict(same) == [CLASSES[1]] * 4
    many = [tree / "pile" / f"{c}-{i}.png" for c in range(3) for i in range(8)]
    assert np.allclose(labeler.predict_proba(many)[8], probs[0], atol=1e-5)
    assert labeler.predict([]) == []


def test_a_saved_labeler_answers_alike(fitted, tmp_path):
    tree, labeler = fitted
    labeler.save(tmp_path / "mine")
    again = FewShotLabeler.from_pretrained(tmp_path / "mine")
    images = [tree / "pile" / f"{c}-3.png" for c in range(3)]
    assert again.classes_ == labeler.classes_
    assert np.allclose(again.predict_proba(images), labeler.predict_proba(images), atol=2e-3)
    with pytest.raises(ApplError, match="no pile was given"):
        again.label_pile()


def test_examples_and_pile_in_memory(fitted):
    examples = {name: [stripes(i, k) for k in range(4)] for i, name in enumerate(CLASSES)}
    pile = [np.asarray(stripes(i, 100 + k)) for i in range(3) for k in range(4)]
    labeler = new_labeler().fit(examples, pile)
    labels = [row.label for row in labeler.label_pile()]
    assert labels == [name for name in CLASSES for _ in range(4)]


def test_before_fit_there_is_nothing_to_ask():
    with pytest.raises(ApplError, match="call fit first"):
        new_labeler().predict(["a.png"])


def test_what_is_no_image_is_refused(fitted):
    _, labeler = fitted
    with pytest.raises(DataError, match="is no image; give bytes"):
        labeler.predict([np.zeros((4, 4, 3), dtype=np.float32)])
    with pytest.raises(DataError, match="no such file"):
        labeler.predict(["absent.png"])
    with pytest.raises(DataError, match="the pile is empty"):
        new_labeler().fit({"a": [stripes(0, 0)], "b": [stripes(1, 0)]}, [])
