"""Whether two releases show the same patients in other images: scores under two-party computation by SPU."""
