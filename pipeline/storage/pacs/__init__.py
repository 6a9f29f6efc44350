"""Retrieval from and transmission to a PACS, over DICOMweb and DIMSE."""
