"""Adobe's own client takes the simulator for the real thing."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pikepdf
import pytest
from adobe.pdfservices.operation.auth.service_principal_credentials import ServicePrincipalCredentials
from adobe.pdfservices.operation.config.client_config import ClientConfig
from adobe.pdfservices.operation.exception.exceptions import ServiceApiException, ServiceUsageException
from adobe.pdfservices.operation.pdf_services import PDFServices
from adobe.pdfservices.operation.pdf_services_media_type import PDFServicesMediaType
from adobe.pdfservices.operation.pdfjobs.jobs.autotag_pdf_job import AutotagPDFJob
from adobe.pdfservices.operation.pdfjobs.params.autotag_pdf.autotag_pdf_params import AutotagPDFParams
from adobe.pdfservices.operation.pdfjobs.result.autotag_pdf_result import AutotagPDFResult

from forebay.testing import Simulated


@pytest.fixture
def services(sim: Simulated, tmp_path: Path) -> Any:
    file = tmp_path / "client.json"
    file.write_text(json.dumps({"pdfServices": {"pdfServicesUri": sim.addresses["adobe"]}}))
    credentials = ServicePrincipalCredentials(client_id="id", client_secret="secret")
    return PDFServices(credentials=credentials, client_config=ClientConfig().from_file(str(file)))


def submitted(services: Any, document: bytes) -> Any:
    asset = services.upload(input_stream=document, mime_type=PDFServicesMediaType.PDF)
    params = AutotagPDFParams(generate_report=True, shift_headings=True)
    return services.submit(AutotagPDFJob(input_asset=asset, autotag_pdf_params=params))


def test_a_document_comes_back_tagged(services: Any, sim: Simulated, document: bytes) -> None:
    sim.change(latency={"adobe.job": {"s": 0.3}}, adobe={"retry_after_s": 0.1})
    result = services.get_job_result(submitted(services, document), AutotagPDFResult).get_result()
    tagged = services.get_content(result.get_tagged_pdf()).get_input_stream()
    with pikepdf.open(io.BytesIO(tagged)) as pdf:
        assert pdf.Root.MarkInfo.Marked
        assert str(pdf.Root.Lang) == "en"
        kinds = {str(each.S) for each in pdf.Root.StructTreeRoot.K.K}
    assert kinds == {"/H2", "/P"}
    assert services.get_content(result.get_report()).get_input_stream()[:2] == b"PK"
    fresh = services.refresh_download_uri(result.get_tagged_pdf())
    assert services.get_content(fresh).get_input_stream() == tagged
    services.delete_asset(result.get_tagged_pdf())
    assert sim.verdict()["routes"]["adobe.job"]["units"] == {"pages": 3, "transactions": 30}


def test_a_document_that_is_too_complex_fails(services: Any, sim: Simulated, document: bytes) -> None:
    sim.fault("adobe.autotag", "bad_pdf")
    location = submitted(services, document)
    with pytest.raises(ServiceApiException) as raised:
        services.get_job_result(location, AutotagPDFResult)
    assert raised.value.error_code == "BAD_PDF"
    assert raised.value.status_code == 400


@pytest.mark.parametrize(("fault", "code"), [("429", "TOO_MANY_REQUESTS"), ("quota", "INSUFFICIENT_QUOTA")])
def test_an_operation_over_its_quota(services: Any, sim: Simulated, document: bytes, fault: str, code: str) -> None:
    sim.fault("adobe.autotag", fault)
    with pytest.raises(ServiceUsageException) as raised:
        submitted(services, document)
    assert raised.value.error_code == code


def test_the_gateways_429_has_the_body_that_this_client_stumbles_over(
    services: Any, sim: Simulated, document: bytes
) -> None:
    sim.fault("adobe.assets", "429")
    with pytest.raises(AttributeError):
        submitted(services, document)


def test_a_token_that_runs_out(services: Any, sim: Simulated, document: bytes) -> None:
    location = submitted(services, document)
    sim.expire_tokens()
    with pytest.raises(ServiceApiException) as raised:
        services.get_job_result(location, AutotagPDFResult)
    assert raised.value.status_code == 401
