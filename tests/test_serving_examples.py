"""The scripts of the page on serving."""

import pandas as pd
import pytest
from fastapi.testclient import TestClient
from huggingface_hub import HfApi

import lupi
from examples import serve_fastapi, upload_hub
from lupi.serving import train
from lupi.tabular import TableSpec

ROWS = [{"size": 1.5, "city": "Bern"}, {"size": None, "city": "Oslo"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    table = pd.DataFrame({"size": [1.0, 2, None, 4] * 5, "city": ["Bern", "Rome"] * 10, "label": ["no", "yes"] * 10})
    table.to_csv(folder / "table.csv", index=False)
    train(
        TableSpec(table=folder / "table.csv", target=["label"]),
        method="no-pi",
        settings={"epochs": 1},
        output=folder / "model",
    )
    return folder / "model"


def test_fastapi(folder, monkeypatch):
    monkeypatch.setenv("MODEL", str(folder))
    client = TestClient(serve_fastapi.app)
    answer = client.post("/predict", json=ROWS)
    assert (answer.status_code, len(answer.json())) == (200, 2)
    expected = lupi.load(folder).predict(pd.DataFrame(ROWS)).to_dict("records")
    assert [row["prediction"] for row in answer.json()] == [row["prediction"] for row in expected]
    assert answer.json()[0]["probability_yes"] == pytest.approx(expected[0]["probability_yes"])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"size": "large", "city": "Bern"}], "Expected column 'size' to be finite numbers, but got 'large' in row 0."),
        ([{"size": 1.5}], "Expected row 0 to have column 'city', but it has none."),
        ([ROWS[0], {"city": "Bern"}], "Expected row 1 to have column 'size', but it has none."),
        ([], "Expected rows, but got none."),
    ],
)
def test_a_bad_request_is_answered_with_a_sentence(rows, message, folder, monkeypatch):
    monkeypatch.setenv("MODEL", str(folder))
    answer = TestClient(serve_fastapi.app).post("/predict", json=rows)
    assert (answer.status_code, answer.json()) == (422, {"detail": message})


@pytest.mark.filterwarnings("ignore")  # what MLflow says of itself
def test_mlflow(folder, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="MLflow needs older versions than those in constraints.txt")
    from examples import log_mlflow

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    loaded = mlflow.pyfunc.load_model(log_mlflow.log(str(folder)))
    table = pd.DataFrame(ROWS)
    pd.testing.assert_frame_equal(loaded.predict(table), lupi.load(folder).predict(table))


class Hub(HfApi):
    """Keeps what is uploaded."""

    def create_repo(self, *_, **options):
        assert options["private"]

    def upload_folder(self, **options):
        self.options = options


def test_hub(folder, monkeypatch):
    """Without the internet: the client's calls are recorded, and a download is the folder."""
    hub = Hub()
    upload_hub.upload(str(folder), "name/model", hub)
    assert {path.name for path in folder.iterdir()} > set(hub.options["allow_patterns"])
    assert (hub.options["repo_id"], hub.options["folder_path"]) == ("name/model", str(folder))
    monkeypatch.setattr(upload_hub, "snapshot_download", lambda repository, allow_patterns: str(folder))  # noqa: ARG005
    assert upload_hub.download("name/model").record["classes"] == ["no", "yes"]
