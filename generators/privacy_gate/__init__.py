"""The privacy gate: may synthetic images be released under the label of the gate?"""
