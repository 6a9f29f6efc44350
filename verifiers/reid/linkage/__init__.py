"""What someone with other images of the same patients can link: Holub et al. 2023, attack and guidelines."""
