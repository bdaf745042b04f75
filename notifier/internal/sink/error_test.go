package sink

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"testing"
	"time"
)

func TestStatusesAndWhatMayFollow(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]Kind{
		302: Retry, 304: Retry, 400: Reject, 401: Reject, 404: Reject, 408: Retry, 410: Gone, 413: Reject, 425: Retry, 429: Retry, 499: Reject,
		500: Retry, 503: Retry, 599: Retry,
	} {
		var e *Error
		if err := FromStatus(status, 7*time.Second); !errors.As(err, &e) || e.Kind != want || e.Status != status || e.After != 7*time.Second {
			t.Errorf("%d: got %+v, want kind %d", status, e, want)
		}
	}
	for _, status := range []int{200, 202, 204, 299} {
		if err := FromStatus(status, 0); err != nil {
			t.Errorf("%d: %v", status, err)
		}
	}
	if got := FromStatus(404, 0).Error(); got != "the endpoint answered Not Found (status 404)" {
		t.Errorf("got %q", got)
	}
}

func TestRetryAfterHasTwoForms(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 22, 14, 30, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, "-1": 0, "1.5": 0, "soon": 0,
		strconv.FormatInt(math.MaxInt64, 10): maxRetryAfter, "99999999999999999999999": 0,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Minute).Format(http.TimeFormat): 0,
	} {
		if got := RetryAfter(value, now); got != want {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
	}
}
