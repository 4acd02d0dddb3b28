"""Workbooks as small as they can be, written by hand."""

import zipfile
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_PARTS = {
    "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"/>',
    "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r1" '
    f'Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
    "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>'
    '<sheet name="Sheet1" sheetId="1" r:id="r1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
    f'<Relationship Id="r1" Type="{_OFFICE}/worksheet" Target="worksheets/sheet1.xml"/>'
    f'<Relationship Id="r2" Type="{_OFFICE}/styles" Target="styles.xml"/></Relationships>',
    "xl/styles.xml": f'<styleSheet xmlns="{_MAIN}"><cellXfs><xf numFmtId="0"/>'
    '<xf numFmtId="22"/></cellXfs></styleSheet>',
}


def write_workbook(frame: pd.DataFrame, path: Path) -> None:
    """Write a workbook with the columns and rows of a frame."""
    write_sheet([list(frame.columns), *frame.itertuples(index=False)], path)


def write_sheet(rows: Sequence[Sequence[object]], path: Path) -> None:
    """Write a workbook of one sheet."""
    body = "".join(f"<row>{''.join(map(_cell, row))}</row>" for row in rows)
    sheet = f'<worksheet xmlns="{_MAIN}"><sheetData>{body}</sheetData></worksheet>'
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**_PARTS, "xl/worksheets/sheet1.xml": sheet}.items():
            archive.writestr(name, text)


def _cell(value: object) -> str:
    """Return a cell; days are numbers since 1899."""
    if isinstance(value, pd.Timestamp):
        days = (value - pd.Timestamp("1899-12-30")) / pd.Timedelta(days=1)
        return f'<c s="1"><v>{days}</v></c>'
    if isinstance(value, str):
        return f'<c t="inlineStr"><is><t>{value}</t></is></c>'
    return "<c/>" if value is None or pd.isna(value) else f"<c><v>{value}</v></c>"  # type: ignore[call-overload]
