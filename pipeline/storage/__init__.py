"""Readers and upload targets for local disk, object stores, web servers and PACS, behind one protocol."""
