"""The Open Inference Protocol, spoken with the client of others."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from forecaster.serve.problems import INFERENCE
from tests.serve.conftest import Running, SettableClock

client_module = pytest.importorskip("tritonclient.http")
PATH = "/v2/models/forecaster/infer"


@pytest.fixture
def client(shared_service: Running) -> Iterator[Any]:
    """A client that knows nothing of this service."""
    client = client_module.InferenceServerClient(f"127.0.0.1:{shared_service.port}")
    yield client
    client.close()


def text_input(name: str, *texts: str, binary: bool = True) -> Any:
    tensor = client_module.InferInput(name, [len(texts)], "BYTES")
    tensor.set_data_from_numpy(np.array(texts, dtype=object), binary_data=binary)
    return tensor


def test_a_client_finds_the_server_and_its_model(client: Any, shared_service: Running) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("forecaster")
    assert client.get_server_metadata()["extensions"] == ["binary_tensor_data"]
    told = client.get_model_metadata("forecaster")
    digest = shared_service.get("/v1/forecast").json["model"]
    assert (told["versions"], told["platform"]) == ([digest], "forecaster_Ridge")
    assert client.is_model_ready("forecaster", digest)
    assert not client.is_model_ready("forecaster", "other")
    assert [tensor["name"] for tensor in told["inputs"]] == ["location", "at"]
    outputs = {tensor["name"]: (tensor["datatype"], tensor["shape"]) for tensor in told["outputs"]}
    assert outputs["y_hat"] == outputs["q90"] == ("FP32", [-1, 3])
    assert outputs["location"] == ("BYTES", [-1])


def test_tensors_have_the_numbers_of_the_forecast(client: Any, shared_service: Running) -> None:
    told = shared_service.get("/v1/forecast").json
    result = client.infer("forecaster", [])
    assert result.as_numpy("location").astype(str).tolist() == [r["id"] for r in told["forecasts"]]
    assert [t.decode() for t in result.as_numpy("ds")] == [step["ds"] for step in told["steps"]]
    for name in ("y_hat", "q10", "q90"):
        expected = np.array([row[name] for row in told["forecasts"]])
        assert np.allclose(result.as_numpy(name), expected, rtol=1e-5)
    assert np.array_equal(result.as_numpy("y_relative"), result.as_numpy("y_hat"))
    answer = result.get_response()
    assert answer["model_version"] == told["model"]
    assert answer["parameters"]["origin"] == told["origin"]


@pytest.mark.parametrize("binary", [True, False])
def test_inputs_choose_locations_and_an_origin(
    client: Any, shared_service: Running, binary: bool
) -> None:
    at = "2015-10-30T12:00:00+00:00"
    inputs = [text_input("location", "L0004", "L0002", binary=binary)]
    inputs.append(text_input("at", at, binary=binary))
    outputs = [client_module.InferRequestedOutput("y_hat", binary_data=binary)]
    outputs.append(client_module.InferRequestedOutput("location", binary_data=not binary))
    result = client.infer("forecaster", inputs, outputs=outputs, request_id="7")
    told = shared_service.get(f"/v1/forecast?at={at.replace('+', '%2B')}").json["forecasts"]
    expected = np.array([told[3]["y_hat"], told[1]["y_hat"]])
    assert np.allclose(result.as_numpy("y_hat"), expected, rtol=1e-5)
    assert result.as_numpy("location").astype(str).tolist() == ["L0004", "L0002"]
    assert result.as_numpy("q10") is None
    assert result.get_response()["id"] == "7"


def test_a_client_is_told_what_is_wrong(client: Any) -> None:
    def refused(inputs: list[Any], model: str = "forecaster", **more: Any) -> str:
        with pytest.raises(client_module.InferenceServerException) as failure:
            client.infer(model, inputs, **more)
        return str(failure.value)

    assert "the locations are L0001" in refused([text_input("location", "L0001", "nowhere")])
    assert "give a time with its offset" in refused([text_input("at", "yesterday")])
    two = text_input("at", "2015-10-30T12:00Z", "2015-10-30T13:00Z")
    assert "at: a forecast has one origin" in refused([two])
    assert "the model is forecaster" in refused([], "resnet")
    outputs = [client_module.InferRequestedOutput("y")]
    assert "y: the outputs are y_hat, y_relative" in refused([], outputs=outputs)
    counted = [client_module.InferRequestedOutput("y_hat", class_count=3)]
    assert "classification: Extra inputs" in refused([], outputs=counted)
    other = client_module.InferInput("image", [1], "FP32")
    other.set_data_from_numpy(np.zeros(1, np.float32))
    assert "'location' or 'at'" in refused([other])


def tensor(data: Any = None, **more: Any) -> dict[str, Any]:
    return {"name": "location", "shape": [1], "datatype": "BYTES", "data": data, **more}


@pytest.mark.parametrize(
    ("inputs", "detail"),
    [
        ([tensor(["L0001", "L0002"])], "has not 2 elements"),
        ([tensor([7])], "texts of 1 to 200 characters"),
        ([tensor(["L0001"]), tensor(["L0001"])], "give each input once"),
        ([tensor()], "with data or with a binary_data_size"),
        ([tensor(parameters={"binary_data_size": 9})], "not 9 bytes of UTF-8 texts"),
        ([tensor(parameters={"binary_data_size": 10**12})], "of UTF-8 texts"),
    ],
)
def test_tensors_that_do_not_hold_together_are_refused(
    shared_service: Running, inputs: Any, detail: str
) -> None:
    reply = shared_service.post(PATH, {"inputs": inputs})
    assert (reply.status, detail in reply.json["error"]) == (422, True), reply.json
    assert reply.json["error"] == reply.json["detail"]


@pytest.mark.parametrize("length", ["-1", "99", "x", "1" * 5000, "٣"])
def test_a_wrong_length_of_the_header_is_refused(shared_service: Running, length: str) -> None:
    headers = {"Inference_Header_Content_Length": length.encode()}
    reply = shared_service.post(PATH, b'{"inputs": []}', **headers)
    assert reply.json["code"] in ("bad_length", "bad_tensor")


def test_bytes_behind_the_tensors_are_refused(shared_service: Running) -> None:
    content = b'{"inputs": []}'
    headers = {"Inference_Header_Content_Length": str(len(content))}
    reply = shared_service.post(PATH, content + b"more", **headers)
    assert "4 bytes belong to no input" in reply.json["detail"]
    assert shared_service.post(PATH, b"[").json["code"] == "not_json"


def test_a_service_without_new_data_is_live_and_not_ready(
    service: Running, clock: SettableClock
) -> None:
    clock.pass_hours(30)
    assert service.get(f"{INFERENCE}/health/live").json == {"live": True}
    assert service.get(f"{INFERENCE}/health/ready").status == 503
    assert service.get(f"{INFERENCE}/models/forecaster/ready").status == 503
    reply = service.post(PATH, {"inputs": []})
    assert (reply.status, json.loads(reply.body)["code"]) == (503, "no_data")
