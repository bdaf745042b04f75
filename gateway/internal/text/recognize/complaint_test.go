package recognize

import (
	"strings"
	"testing"
)

func TestComplaintsAreToldFromOtherMessages(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"No tool calls found in the response. Every response MUST include at least one tool call.":          true,
		"Please always provide EXACTLY ONE action in triple backticks, found 0 actions.":                    true,
		"Your output was not formatted correctly. You must always include one discussion and one command.":  true,
		"[ERROR] You did not use a tool in your previous response! Please retry with a tool use.":           true,
		"Invalid Format: Missing 'Action:' after 'Thought:'":                                                true,
		"Invalid or incomplete response":                                                                    true,
		"Format error: no command was found in your reply.":                                                 true,
		"Your last reply has no tool call. Reply with exactly one tool call.":                               true,
		"Attempt 4: the reply is not valid JSON. Try again.":                                                true,
		"I couldn\u2019t parse that.":                                                                       true,
		"Error in code parsing: your code snippet is invalid.":                                              true,
		"Please proceed to the next step. If you have completed the task, please call the `submit()` tool.": true,
		"The response must contain a JSON object":                                                           true,
		"Please continue working on the task. If it is done, call finish.":                                  true,
		"If you are sure, use \"submit\" to hand it in.":                                                    true,
		"Call me when you are done.":                                                                        false,
		"I couldn't find a function call in that.":                                                          true,
		"Please respond with one of the provided functions.":                                                true,
		"1 validation error for Plan\nsteps\n  Field required [type=missing]":                               true,
		"The output did not match the required schema.":                                                     true,
		"Please continue. IMPORTANT: YOU SHOULD NEVER ASK FOR HUMAN RESPONSE.":                              true,
		"Deine Antwort enthält keinen Werkzeugaufruf.":                                                      true,
		"Je ne trouve aucun appel d\u2019outil.":                                                            true,
		"I didn't find the letter. Look again.":                                                             false,
		"continue":                                                                                          false,
		"Continue, please.":                                                                                 false,
		"I don't know.":                                                                                     false,
		"ok":                                                                                                false,
		"Another one, please.":                                                                              false,
		"Is it time to post the reminder? The rules are above.":                                             false,
		"HEARTBEAT: see whether anything is to be done.":                                                    false,
		"Read the list. Do not repeat old tasks. If nothing needs attention, reply HEARTBEAT_OK.":           false,
		"Check the inbox, and answer what is urgent.":                                                       false,
		"run the tests again":                                                                               false,
		"Are there new messages? Answer yes or no.":                                                         false,
		"Summarise the last message in one sentence.":                                                       false,
		"": false,
	} {
		if got := IsComplaint([]byte(text)); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
}

func TestOnlyTheBeginningOfALongMessageIsRead(t *testing.T) {
	t.Parallel()
	if IsComplaint([]byte(strings.Repeat("Go on with it. ", maxComplaint) + "No tool call was found.")) {
		t.Error("its end was read")
	}
}
