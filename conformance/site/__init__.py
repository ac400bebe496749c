"""The pack as a small bilingual site, to hand out with an assignment: `conformance spec render`."""
