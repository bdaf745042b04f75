package clientprofile

import "testing"

func TestAnswersGetStrongerWhileASenderComesBack(t *testing.T) {
	t.Parallel()
	retries, goesOn := &Client{EndsBy: Refused}, &Client{EndsBy: InPlace}
	for name, c := range map[string]struct {
		sender     Sender
		answerable bool
		want       []Answer
	}{
		"an unknown agent":                        {Sender{Agent: true}, true, []Answer{Limited, Refused, InPlace, InPlace}},
		"an unknown client without tools":         {Sender{}, true, []Answer{Limited, Refused, Refused}},
		"an unknown agent that wants data":        {Sender{Agent: true}, false, []Answer{Limited, Refused, Refused}},
		"one that retries a 429":                  {Sender{Agent: true, Client: retries}, true, []Answer{Refused, InPlace, InPlace}},
		"one that retries a 429, without tools":   {Sender{Client: retries}, true, []Answer{Refused, Refused}},
		"one that no error ends":                  {Sender{Agent: true, Client: goesOn}, true, []Answer{InPlace, InPlace}},
		"one that no error ends, without tools":   {Sender{Client: goesOn}, true, []Answer{InPlace, InPlace}},
		"one that no error ends, that wants data": {Sender{Agent: true, Client: goesOn}, false, []Answer{Refused, Refused}},
	} {
		for times, want := range c.want {
			c.sender.Times = times
			if got := c.sender.Answer(c.answerable); got != want {
				t.Errorf("%s, back %d times: %d, want %d", name, times, got, want)
			}
		}
	}
}
