// Shows the page's data with the function for its kind of page.

const data = document.getElementById("data");
const pagesByKind = { bench: showReport, eval: showEvaluation, live: showLive };
pagesByKind[document.body.dataset.page](data && JSON.parse(data.textContent));
