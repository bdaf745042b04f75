package recognize_test

import (
	"testing"

	"github.com/unloop/unloop/gateway/internal/text/recognize"
)

func TestAReferenceIsTheSameHoweverItIsSigned(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://b.s3.amazonaws.com/a.png?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=k%2F1&X-Amz-Date=20260522T143000Z&X-Amz-Expires=900&X-Amz-SignedHeaders=host&X-Amz-Signature=ab": "https://b.s3.amazonaws.com/a.png",
		"https://b.s3.amazonaws.com/a?versionId=7&AWSAccessKeyId=k&Signature=ab%3D&Expires=1":                                                                                                "https://b.s3.amazonaws.com/a?versionId=7",
		"https://storage.googleapis.com/b/a.pdf?X-Goog-Algorithm=GOOG4&X-Goog-Expires=900&X-Goog-Signature=ab#page=2":                                                                        "https://storage.googleapis.com/b/a.pdf#page=2",
		"https://x.blob.core.windows.net/c/a.wav?sv=2022-11-02&st=1&se=2026-05-22T14%3A30%3A00Z&sr=b&sp=r&skoid=1&sig=ab%3D":                                                                 "https://x.blob.core.windows.net/c/a.wav",
		"https://d1.cloudfront.net/scans/a?Expires=1&Signature=ab~&Key-Pair-Id=K1":                                                                                                           "https://d1.cloudfront.net/scans/a",
		"https://cdn.discordapp.com/attachments/1/2/a.png?ex=66&is=65&hm=ab&":                                                                                                                "https://cdn.discordapp.com/attachments/1/2/a.png",
		"https://x.example/files/17?token=ab&w=200":                                                                                                                                          "https://x.example/files/17?w=200",
		"https://x.example/download?token=ab":                                                                                                                                                "https://x.example/download?token=ab",
		"https://x.example/page?is=1&ex=2":                                                                                                                                                   "https://x.example/page?is=1&ex=2",
		"https://x.example/page?sp=3&se=4":                                                                                                                                                   "https://x.example/page?sp=3&se=4",
		"https://x.example/a.png?x-oss-process=resize&x-oss-signature=ab&x-oss-expires=1":                                                                                                    "https://x.example/a.png?x-oss-process=resize",
		"https://x.example/a.png": "https://x.example/a.png",
		"":                        "",
	} {
		if got := recognize.Reference(url); got != want {
			t.Errorf("%s\n got %s\nwant %s", url, got, want)
		}
	}
}
