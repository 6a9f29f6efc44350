#!/usr/bin/env bash
# Installs the system programs that tests marked "system" use: dciodvfy (dicom3tools), a browser, an
# archive (Orthanc) with its DICOMweb plugin, Java for Spark, strace, and Tesseract with data of scripts.
set -euo pipefail
if command -v dciodvfy >/dev/null && command -v chromium >/dev/null && command -v Orthanc >/dev/null &&
  command -v java >/dev/null && command -v strace >/dev/null && command -v tesseract >/dev/null &&
  [ -e /usr/share/orthanc/plugins/libOrthancDicomWeb.so ]; then
  exit 0
fi
run=""
[ "$(id -u)" = 0 ] || run=sudo
$run apt-get update -qq
$run env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  dicom3tools chromium orthanc orthanc-dicomweb openjdk-17-jre-headless strace tesseract-ocr \
  tesseract-ocr-script-latn tesseract-ocr-script-cyrl tesseract-ocr-script-grek tesseract-ocr-script-arab \
  tesseract-ocr-script-hebr tesseract-ocr-script-deva tesseract-ocr-script-thai tesseract-ocr-script-hans \
  tesseract-ocr-script-jpan tesseract-ocr-script-hang
