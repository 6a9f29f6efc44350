"""The policy that ``medsanitize init`` writes: complete, commented, and valid without changes."""

from __future__ import annotations

import re

from medsanitize.errors import UsageError
from medsanitize.policies.model import PresetName

_TEMPLATE = """\
# yaml-language-server: $schema=policy.schema.json
#
# Policy of medsanitize. `medsanitize validate` checks it, `medsanitize plan` shows what it would do, and
# `medsanitize run` creates the release. Settings after a # are optional and have example values: delete the #
# to use them. `medsanitize schema > policy.schema.json` enables completion in editors. Paths are relative to
# this file.

version: 1

# The preset supplies every setting that this policy does not contain:
#   ps3.15-basic       the Basic Profile of DICOM PS3.15; pixels are not checked
#   research           keeps what public image archives keep, cleaned; dates shifted
#   hipaa-safe-harbor  removes the 18 HIPAA identifiers; dates reduced to the year
preset: {preset}

release:
  # All versions of a dataset have the same name.
  name: "{name}"
  version: "1.0"
  # pseudonymous: you keep an encrypted patient mapping. anonymous: no mapping is kept.
  mode: pseudonymous
  # Public metadata; the report lists what is missing.
#  date: 2026-01-31
#  description: "Chest CT of adults, one examination per patient"
#  creator: {{name: "Department of Radiology", url: "https://radiology.example.org"}}
#  license: CC-BY-4.0
#  contact: {{name: "Data office", email: "data@example.org"}}
#  ethics: "Approved by the ethics committee; consent waived"
  # The run stops after the audit until the staged release is approved; {{reviewers: 2, sample: 5 %}}: by two
  # persons, who both judge a sample before.
#  approve: required

# Input folders. They are never written to, and links out of them are not followed. For a PACS, use a worklist
# or a query: - {{dicomweb: "https://host/dicom-web", worklist: ./worklist.csv}}.
inputs:
  - ./export

# Files that are no images are quarantined, by their content, except these kinds (see the manual).
#ignore: [dicomdir, checksums, thumbs-db, ds-store, apple-double, text, windows-program]

# Archives and disk images (ZIP, tar, gzip, 7z, ISO): open, drop or quarantine. Limits quarantine them.
#containers:
#  action: open
#  limits:
#    ratio: 200
#    depth: 4

# Release folder. It is written only if every gate passes.
output: ./release

# Working state, ledger and quarantine. Contains PHI; never publish it.
state: ./state

# The release key, from which pseudonyms are derived. Create it: medsanitize keygen ./release.key
# Instead of file, you can write env: NAME_OF_VARIABLE, or command: [program, argument].
keys:
  file: ./release.key
  # project: all releases made with this key share pseudonyms. release: only releases of the same name do.
#  scope: project
  # Key that signs the release. Create it: medsanitize keygen --signing ./signing.key
#  signing: ./signing.key

# Patients to exclude, for example because consent was withdrawn: CSV with a column patient_id.
#exclude: ./withdrawn.csv

# Which patient IDs are one person: CSV with columns patient_id, person and optionally issuer.
#identities: ./identities.csv

# Accompanying tables. IDs are replaced by pseudonyms and dates changed as in the images; columns that are not
# listed are dropped.
#tables:
#  - name: labels
#    file: ./labels.csv
#    patient: PatientID
#    study: StudyInstanceUID
#    dates: [diagnosis_date]
#    ages: [age]
#    zip_codes: [zip]
#    keep: [finding]

# k-anonymity: the number of patients who must share each combination of values in the tables; if fewer do,
# flag it or fail.
#k_anonymity: {{k: 5, action: flag}}

# Registry of earlier releases, to find objects that were already published. Public manifests may mention only
# the releases listed in public.
#registry:
#  path: ./registry
#  public: [chest-ct]
#  key: {{file: ./registry.key}}

# Image-based search for patients of this release in earlier ones: flag, drop, quarantine or fail.
# Requires registry.key, and embeddings: medsanitize registry add RELEASE --embed.
#overlap:
#  model: ./retrieval-model
#  verifier: ./verification-model
#  false_match_rate: 0.001
#  action: fail

# Private comparisons with other hospitals: how many images two releases share, and nothing else (see
# medsanitize party).
#partners:
#  party: ./party
#  agreements: [{{partner: south-hospital, address: "https://south.example:8443", compare: [pixels]}}]
# Synthetic images instead of real ones: none, flagged, all or by-label. The originals are dropped; synthetic
# images are released only if the privacy gate passes (see medsanitize train generator and synthesize).
#synthesize:
#  replace: by-label
#  labels: [rare-finding]
#  model: ./generator
#  verifier: ./verification-model
#  reference: {{images: ./export, table: ./labels.csv, label: finding}}
#  residual: 0.001  # copies left after matching images are removed, at most
#  form: cr

# Format of pseudonyms. The table (columns patient_id,pseudonym) contains pseudonyms already assigned.
#pseudonyms:
#  prefix: SITE1-
#  table: ./pseudonyms.csv
#  uid_root: "1.2.840.99999"

# Treatment of DICOM objects, where it differs from the preset.
#dicom:
  # Options of PS3.15 E.3, codes 113101 to 113112.
#  options:
#    clean_descriptors: true
#    retain_device_identity: false
  # shift: one shift per patient. year: dates are reduced to the year. times: keep, shift or remove.
#  dates:
#    method: shift
#    keep_weekday: false
#    times: keep
  # Single attributes, by keyword, tag or mask: D replace, Z empty, X remove, K keep, C clean, U new UID.
#  attributes:
#    ImageComments: X
#    "(0008,103e)": C
#    "60xx3000": X
  # Safe private attributes by private creator, in addition to the built-in list.
#  safe_private:
#    - {{creator: "ACME 1.1", group: "0029", element: "10", vr: DS}}
  # Objects beyond these limits are quarantined.
#  limits:
#    depth: 64
#    elements: 1000000

# Free text that is kept: clean (identifiers are removed), keep-vocabulary (only words of a controlled
# vocabulary are kept) or remove.
#text:
#  action: clean
#  attributes:
#    StudyDescription: keep-vocabulary
#  patterns: ["MRN[0-9]{{6}}"]
  # Words of your site, one per line: always removed (staff, employers, wards), and kept (rooms of devices).
#  deny_list: ./never-words.txt
#  allow_list: ./safe-words.txt

# Burned-in text. With dicom.options.clean_pixel_data: which objects are read, and what is blanked. Without
# it: objects at risk are quarantined or released (marked as not checked).
#pixels:
#  at_risk: quarantine
#  search: at-risk
#  mask: all-text
#  regions:
#    - {{manufacturer: "ACME", modality: US, rows: 600, columns: 800, boxes: [[0, 0, 800, 40]]}}
#  lossy: quarantine
#  faces: quarantine

# Encapsulated documents and audio; PNG, JPEG and TIFF files.
#documents:
#  pdf: rebuild
#  other: drop
#raster:
#  action: clean

# Whole-slide images.
#wsi:
#  label: replace
  # The macro image: the part to keep, without the label, whose position differs by scanner.
#  macro: {{keep: [0.3, 0, 1, 1]}}
#  scanner: drop
#  specimens: {{file: ./slides.csv, slide: file, patient: patient_id, block: block, stain: stain}}

# Duplicate objects: ignore, flag, drop, quarantine or fail.
#deduplicate:
#  bytes: drop
#  pixels: flag
#  registry: flag
  # Different objects of one patient with one SOP Instance UID: new-uids or quarantine.
#  one_uid: new-uids

# A known value in pixel data: quarantine leaves its object out, refuse publishes nothing.
#audit:
#  in_pixels: refuse

# Released objects that foreign readers, such as dciodvfy, compare with their sources: "off", sample or all.
#validation: sample

# Execution engine: processes on this machine (local) or a cluster (ray); by default one worker per core.
#engine:
#  kind: local
#  workers: 4
"""


def policy_template(preset: PresetName, name: str) -> str:
    """Return the commented policy of a new project.

    Parameters
    ----------
    preset : str
        Name of a preset.
    name : str
        Name of the release: at most 64 lower-case letters, digits, dots, dashes and underscores.

    Returns
    -------
    str
        YAML that `loads` accepts.

    Raises
    ------
    UsageError
        The name is invalid.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", name):
        raise UsageError(
            "Invalid release name",
            "Use at most 64 lower-case letters, digits, dots, dashes and underscores",
        )
    return _TEMPLATE.format(preset=preset, name=name)
