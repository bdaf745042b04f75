package e2e

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/deploy/scan"
)

// The page of a scan asks whether its findings are right, and hands out labels that a set takes
// over.
func TestScanPageInABrowserCollectsLabels(t *testing.T) {
	t.Parallel()
	b := browse(t)
	page, err := filepath.Abs("../scan/testdata/report.html")
	if err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.Navigate("file://" + page))
	b.wantsFitWidths()
	if js[bool](b, `document.getElementById("labels").checkVisibility()`) {
		t.Error("labels are offered before there are any")
	}
	for _, step := range []string{"summary", "input[value=right]", "input[value=unsure]"} {
		b.click("details:nth-of-type(1) " + step)
	}
	if text := b.see("#labels"); !strings.HasPrefix(text, "1 label: download") {
		t.Errorf("with a label: %q", text)
	}
	b.click("details:nth-of-type(2) summary")
	b.wantsFitWidths()
	b.click("details:nth-of-type(2) input[value=wrong]")
	lines, err := url.QueryUnescape(strings.TrimPrefix(js[string](b, `document.getElementById("download").href`), "data:application/jsonl,"))
	if err != nil {
		t.Fatal(err)
	}
	shop := scan.File{Set: "/set", Path: "/set/.claude/projects/-home-ada-shop/77aa.jsonl"}
	labels, others, err := scan.FromPage(strings.NewReader(lines), []scan.File{shop})
	want := []scan.Label{{File: ".claude/projects/-home-ada-shop/77aa.jsonl", Session: "77aa.jsonl#77aa", Verdict: scan.Wrong}}
	if diff := cmp.Diff(want, labels); diff != "" || others != 1 || err != nil {
		t.Errorf("%d others, %v, labels (-want +got):\n%s", others, err, diff)
	}
	b.wantsNoComplaints()
}
