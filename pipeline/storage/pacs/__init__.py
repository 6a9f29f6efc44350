"""Reading from a PACS and sending to one: DICOMweb and DIMSE."""
