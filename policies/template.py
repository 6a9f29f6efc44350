"""The policy that `init` writes: complete, commented, and good to run as it stands."""

from __future__ import annotations

import re

from medsanitize.errors import UsageError
from medsanitize.policies.model import PresetName

_TEMPLATE = """\
# yaml-language-server: $schema=policy.schema.json
#
# A policy of medsanitize. `medsanitize validate` checks it, `medsanitize plan` shows what it would do,
# `medsanitize run` does it. Lines that begin with # and a word are settings switched off; the
# values shown are examples. `medsanitize schema > policy.schema.json` helps editors to complete it.
# Paths are relative to this file.

version: 1

# What decides everything that this policy does not:
#   ps3.15-basic       the Basic Profile of DICOM PS3.15; does not look at pixels
#   research           what public image archives keep, cleaned; dates shifted
#   hipaa-safe-harbor  none of the 18 HIPAA identifiers; only the year of dates
preset: {preset}

release:
  # Versions of one dataset share its name.
  name: "{name}"
  version: "1.0"
  # pseudonymous: an encrypted link stays with you. anonymous: nobody keeps a link, not even you.
  mode: pseudonymous
  # What readers are told; the report says what is missing.
#  date: 2026-01-31
#  description: "Chest CT of adults, one examination a patient"
#  creator: {{name: "Department of Radiology", url: "https://radiology.example.org"}}
#  license: CC-BY-4.0
#  contact: {{name: "Data office", email: "data@example.org"}}
#  ethics: "Approved by the ethics committee; consent waived"
  # Stop after the audit until somebody approves the staged release.
#  approve: required

# Folders to read. They are never written to, and links are not followed out of them. A PACS is read too, by a
# worklist or a query: - {{dicomweb: "https://host/dicom-web", worklist: ./worklist.csv}}.
inputs:
  - ./export

# The release. It appears there only when every gate has passed.
output: ./release

# Yours alone: working state, ledger, quarantine. Never publish it.
state: ./state

# The key that pseudonyms come from. Make it with: medsanitize keygen ./release.key
# Instead of a file: env: NAME_OF_VARIABLE, or command: [program, argument].
keys:
  file: ./release.key
  # project: every release made with this key shares pseudonyms. release: only those of one name.
#  scope: project
  # Signs the release. Make it with: medsanitize keygen --signing ./signing.key
#  signing: ./signing.key

# Patients to leave out, for instance because consent was withdrawn: a CSV with a column patient_id.
#exclude: ./withdrawn.csv

# Tables that go with the images. Ids are mapped, dates changed as the patient's are; columns that are not
# named here are dropped.
#tables:
#  - name: labels
#    file: ./labels.csv
#    patient: PatientID
#    study: StudyInstanceUID
#    dates: [diagnosis_date]
#    ages: [age]
#    zip_codes: [zip]
#    keep: [finding]

# How many patients must share what the tables say of each: with fewer, flag it or fail.
#small_groups: {{least: 5, action: flag}}

# Earlier releases, to find what was published before; those named in public may be named to readers.
#registry:
#  path: ./registry
#  public: [chest-ct]
#  key: {{file: ./registry.key}}

# Whether patients of this release are in earlier ones, told by models that compare images: flag, drop,
# quarantine or fail. Needs registry.key, and embeddings: medsanitize registry add RELEASE --embed.
#overlap:
#  model: ./retrieval-model
#  verifier: ./verification-model
#  false_match_rate: 0.001
#  action: fail

# Synthetic images in place of real ones: none, flagged, all or by-label. The originals are dropped; the
# synthetic ones are released only if the anonymity gate passes (see train generator, and synthesize).
#synthesize:
#  replace: by-label
#  labels: [rare-finding]
#  model: ./generator
#  verifier: ./verification-model
#  reference: {{images: ./export, table: ./labels.csv, label: finding}}
#  form: cr

# Format of pseudonyms. The table (patient_id,pseudonym) holds those that you have already given.
#pseudonyms:
#  prefix: SITE1-
#  table: ./pseudonyms.csv
#  uid_root: "1.2.840.99999"

# How DICOM objects are treated, where the preset is not what you want.
#dicom:
  # The options of PS3.15, 113101 to 113112.
#  options:
#    clean_descriptors: true
#    retain_device_identity: false
  # shift: one whole-day shift per patient. year: only the year stays.
#  dates:
#    method: shift
#    keep_weekday: false
#    times: keep
  # Single attributes, by keyword, tag or mask: D replace, Z empty, X remove, K keep, C clean, U new UID.
#  attributes:
#    ImageComments: X
#    "(0008,103e)": C
#    "60xx3000": X
  # Private attributes that are safe, by their creator, beside the built-in list.
#  safe_private:
#    - {{creator: "ACME 1.1", group: "0029", element: "10", vr: DS}}
  # Objects beyond these limits go to quarantine.
#  limits:
#    depth: 64
#    elements: 1000000

# Free text that stays: clean (identifiers are cut), keep-vocabulary (only listed words stay) or remove.
#text:
#  action: clean
#  attributes:
#    StudyDescription: keep-vocabulary
#  patterns: ["MRN[0-9]{{6}}"]

# Burned-in text, with dicom.options.clean_pixel_data on: which objects are read, what is blanked.
# With it off: quarantine objects at risk, or release them (the report says "not checked").
#pixels:
#  at_risk: quarantine
#  look_at: every-image
#  mask: all-text
#  regions:
#    - {{manufacturer: "ACME", modality: US, rows: 600, columns: 800, boxes: [[0, 0, 800, 40]]}}
#  lossy: quarantine
#  faces: quarantine

# Encapsulated documents and audio; PNG, JPEG and TIFF files beside DICOM.
#documents:
#  pdf: rebuild
#  other: drop
#raster:
#  action: clean

# Whole-slide images.
#wsi:
#  label: replace
  # The picture of the whole glass, less the label: the part that stays, by your scanner's picture.
#  macro: {{keep: [0.3, 0, 1, 1]}}
#  scanner: drop
#  places: {{file: ./slides.csv, slide: file, patient: patient_id, block: block, stain: stain}}

# The same object twice: ignore, flag, drop, quarantine or fail.
#deduplicate:
#  bytes: drop
#  pixels: flag
#  registry: flag

# Who does the work: processes of this machine (local) or a cluster (ray); without a number, one a core.
#engine:
#  kind: local
#  workers: 4
"""


def policy_template(preset: PresetName, name: str) -> str:
    """The commented policy of a new project.

    Parameters
    ----------
    preset : str
        One of the shipped presets.
    name : str
        Name of the release: lower-case letters, digits, dots, dashes and underscores.

    Raises
    ------
    UsageError
        The name cannot be that of a release.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", name):
        raise UsageError(
            "Invalid release name",
            "Use at most 64 lower-case letters, digits, dots, dashes and underscores",
        )
    return _TEMPLATE.format(preset=preset, name=name)
