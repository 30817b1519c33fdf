"""The application that a worker runs when none is named: documents, with the processors that come with Forebay."""

from forebay.app.forebay import Forebay

app = Forebay()
app.documents.pipeline  # noqa: B018 - the first look registers its steps
