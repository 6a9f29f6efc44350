"""What a release is: layout, manifest, evidence, verification, registry."""
