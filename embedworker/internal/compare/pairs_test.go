package compare_test

// side is a text alone, or an exchange: what an agent said or called, and what
// it was answered.
type side struct{ said, answered string }

type pair struct{ a, b side }

func alone(a, b string) pair { return pair{side{said: a}, side{said: b}} }

func exchange(saidA, answeredA, saidB, answeredB string) pair {
	return pair{side{saidA, answeredA}, side{saidB, answeredB}}
}

const invoicePrompt = "Extract the vendor, the currency and the total amount from the attached invoice and return them as one JSON object."

// nearRepeats are the same question in other words: reordered clauses, changed
// filler, politeness, prefixes of retries.
var nearRepeats = []pair{
	alone(invoicePrompt, "Try again: "+invoicePrompt),
	alone("That wasn't valid JSON. Try again: "+invoicePrompt, "That wasn't valid JSON. Try again: That wasn't valid JSON. Try again: "+invoicePrompt),
	alone(invoicePrompt, "Your answer was wrong. "+invoicePrompt),
	alone(invoicePrompt, "Could you please extract the vendor, the currency and the total amount from the attached invoice, and return them as one JSON object? Thanks!"),
	alone(invoicePrompt, "From the attached invoice extract the vendor, the total amount and the currency, and return them as one JSON object."),
	alone("Find out why the login page redirects twice after the password was changed.", "After the password was changed the login page redirects twice. Find out why."),
	alone("Find out why the login page redirects twice after the password was changed.", "Please find out why the login page now redirects twice after the password was changed, okay?"),
	alone("Summarize the meeting notes and list every open action item with its owner.", "List every open action item with its owner, and summarize the meeting notes."),
	alone("Summarize the meeting notes and list every open action item with its owner.", "Can you summarize the meeting notes for me and then list every open action item with its owner?"),
	alone("Which customers have not paid their invoices since March?", "Since March, which customers have not paid their invoices?"),
	alone("Which customers have not paid their invoices since March?", "Once more: which of the customers have still not paid their invoices since March?"),
	alone("Write a unit test for the date parser that covers leap years.", "Now write a unit test that covers leap years for the date parser."),
	alone("Write a unit test for the date parser that covers leap years.", "Hi! I would like you to write a unit test for the date parser that covers leap years, please."),
	alone("Translate the following paragraph into French without changing its tone.", "Without changing its tone, translate the following paragraph into French."),
	alone("Translate the following paragraph into French without changing its tone.", "Sorry, that's not correct. Translate the following paragraph into French without changing its tone."),
	alone("Check whether the backup of the production database finished last night.", "Last night, did the backup of the production database finish? Check that."),
	alone("Check whether the backup of the production database finished last night.", "Just check again whether the backup of the production database finished last night."),
	alone("Compare the two contracts and highlight clauses about liability.", "Highlight clauses about liability and compare the two contracts."),
	alone("Compare the two contracts and highlight clauses about liability.", "Please compare the two contracts and also highlight any clauses about liability."),
	alone("The server returns a timeout when I upload large images. Fix it.", "Fix this: the server returns a timeout when I upload large images."),
	alone("The server returns a timeout when I upload large images. Fix it.", "THE SERVER RETURNS A TIMEOUT WHEN I UPLOAD LARGE IMAGES!!! FIX IT!"),
	alone("Plan a vegetarian dinner for six guests with dessert.", "Plan a dinner with dessert for six vegetarian guests."),
	alone("Plan a vegetarian dinner for six guests with dessert.", "Okay, let's try again. Plan a vegetarian dinner for six guests, with dessert."),
	alone("Explain how photosynthesis stores energy to a child of ten years.", "To a child of ten years, explain how photosynthesis stores energy."),
	alone("Explain how photosynthesis stores energy to a child of ten years.", "Please could you just explain to a child of ten years how photosynthesis stores energy"),
	alone("Search the knowledge base for articles on refund policies in Europe.", "Search the knowledge base for articles on European refund policies in Europe."),
	alone("Search the knowledge base for articles on refund policies in Europe.", "Attempt 2: search the knowledge base for articles on refund policies in Europe."),
	alone("Rename the column customer_id to client_id in every migration.", "In every migration, please rename the column customer_id to client_id."),
	alone("請把這份報告翻譯成英文並保留所有表格", "請再把這份報告翻譯成英文並保留所有表格"),
	alone("Bitte fasse den Vertrag in fünf Stichpunkten zusammen und nenne alle Fristen.", "Bitte fasse in fünf Stichpunkten den Vertrag zusammen und nenne alle Fristen."),
	exchange("I'll look for the configuration file of the web server.", "Nothing was found.", "Let me look for the configuration file of the web server again.", "Nothing was found."),
	exchange("search_files {\"query\":\"retry policy\"}", "No matches in the repository.", "Let me try again. search_files {\"query\":\"retry policy\"}", "No matches in the repository."),
	exchange("Let me run the test suite now.", "Ran 12 tests in 0.031s FAILED test_login AssertionError", "I will run the test suite again.", "Ran 12 tests in 0.044s FAILED test_login AssertionError"),
	exchange("The import still fails, so I'll reinstall the package numpy.", "Requirement already satisfied: numpy", "The import fails still. I'll reinstall the package numpy once more.", "Requirement already satisfied: numpy"),
	exchange("Could you tell me which account you mean?", "The savings account please", "Which account do you mean, could you tell me?", "the savings account, please!"),
	exchange("I am handing this ticket over to the billing agent.", "Billing agent: this belongs to support, handing it back.", "Handing this ticket over to the billing agent once again.", "Billing agent: handing it back, this belongs to support."),
	exchange("get_weather {\"city\":\"Oslo\"}", "error: service unavailable at 14:30:05", "get_weather {\"city\":\"Oslo\"}", "error: service unavailable at 14:30:09"),
	exchange("Waiting for the deployment to become healthy.", "status: pending", "Still waiting for the deployment to become healthy.", "status: pending"),
	exchange("Open the page of the shop and click on checkout.", "The element checkout is not visible.", "Okay, open the page of the shop again and click on checkout.", "The element checkout is not visible."),
	exchange("I think the draft needs a stronger introduction paragraph.", "Reviewer: the introduction paragraph is still weak.", "The draft needs a stronger introduction paragraph, I think.", "Reviewer: the introduction paragraph is weak still."),
}

// honestPairs look alike and are not repeats: another object, another number,
// another page, another answer.
var honestPairs = []pair{
	alone("Explain how the new cache is helping the slow reports of the finance team.", "Explain how the new cache is blocking the slow reports of the finance team."),
	alone(invoicePrompt, "Extract the vendor, the due date and the line items from the attached invoice and return them as one JSON object."),
	alone(invoicePrompt, "Extract the sender, the language and the signature from the attached letter and return them as one JSON object."),
	alone("Find out why the login page redirects twice after the password was changed.", "Find out why the signup page shows no captcha after the password was changed."),
	alone("Summarize the meeting notes and list every open action item with its owner.", "Summarize the release notes and list every breaking change with its author."),
	alone("Which customers have not paid their invoices since March?", "Which suppliers have not sent their invoices since March?"),
	alone("Which customers have not paid their invoices since March?", "Which customers have not renewed their contracts since April?"),
	alone("Write a unit test for the date parser that covers leap years.", "Write a unit test for the URL parser that covers query strings."),
	alone("Translate the following paragraph into French without changing its tone.", "Translate the following paragraph into Japanese without changing its tone."),
	alone("Check whether the backup of the production database finished last night.", "Check whether the migration of the staging database finished last night."),
	alone("Compare the two contracts and highlight clauses about liability.", "Compare the two contracts and highlight clauses about termination."),
	alone("Summarize chapter 3 of the handbook in five sentences.", "Summarize chapter 4 of the handbook in five sentences."),
	alone("What is 12 times 17 plus 4?", "What is 12 times 19 plus 4?"),
	alone("Rename the column customer_id to client_id in every migration.", "Rename the column order_id to purchase_id in every migration."),
	alone("Delete the file old_report.pdf from the archive folder.", "Delete the file new_report.pdf from the archive folder."),
	alone("Open src/parser.go and explain the main loop.", "Open src/lexer.go and explain the main loop."),
	alone("Plan a vegetarian dinner for six guests with dessert.", "Plan a birthday party for six children with games."),
	alone("Explain how photosynthesis stores energy to a child of ten years.", "Explain how batteries store energy to a child of ten years."),
	alone("Search the knowledge base for articles on refund policies in Europe.", "Search the knowledge base for articles on warranty claims in Canada."),
	alone("Book a table for four at 19:30 on Friday.", "Book a table for four at 20:15 on Friday."),
	alone("Send the contract to ann@example.com for signature.", "Send the contract to bob@example.com for signature."),
	alone("The server returns a timeout when I upload large images. Fix it.", "The client shows a blank screen when I rotate large images. Fix it."),
	alone("請把這份報告翻譯成英文並保留所有表格", "請把這封郵件翻譯成日文並刪除所有附件"),
	alone("Bitte fasse den Vertrag in fünf Stichpunkten zusammen und nenne alle Fristen.", "Bitte fasse das Protokoll in fünf Stichpunkten zusammen und nenne alle Teilnehmer."),
	alone("Turn on the lights in the kitchen and the hall.", "Turn on the heating in the bathroom and the hall."),
	alone("How many people live in Norway?", "How many people live in Sweden?"),
	exchange("list_items {\"page\":2}", "apple, banana, cherry", "list_items {\"page\":3}", "apple, banana, cherry"),
	exchange("read_file {\"path\":\"main.go\",\"offset\":0}", "package main", "read_file {\"path\":\"main.go\",\"offset\":100}", "func run() error"),
	exchange("scroll_down", "(Open file: /repo/fields.py) lines 1 to 100", "scroll_down", "(Open file: /repo/fields.py) lines 101 to 200"),
	exchange("Let me run the test suite now.", "Ran 12 tests in 0.031s FAILED test_login AssertionError", "I will run the test suite again.", "Ran 12 tests in 0.044s OK"),
	exchange("Let me run the test suite now.", "FAILED test_login AssertionError", "Let me run the test suite now.", "FAILED test_logout AssertionError"),
	exchange("mkdir build", "Your command ran successfully and did not produce any output.", "touch README", "Your command ran successfully and did not produce any output."),
	exchange("I'll fix the indentation of the loop.", "File updated.", "I'll add the missing import of the decimal module.", "File updated."),
	exchange("get_weather {\"city\":\"Oslo\"}", "rain, cold", "get_weather {\"city\":\"Rome\"}", "sun, warm"),
	exchange("What is your name?", "Ann", "What is your name?", "Bob"),
	exchange("Waiting for the deployment to become healthy.", "status: pending, one of three replicas", "Still waiting for the deployment to become healthy.", "status: ready, all replicas healthy"),
	exchange("search_web {\"q\":\"flights Berlin Lisbon\"}", "no results", "search_web {\"q\":\"hotels Lisbon beach\"}", "no results"),
	exchange("click {\"x\":120,\"y\":340}", "ok", "click {\"x\":120,\"y\":360}", "ok"),
	exchange("Next I'll translate the title.", "Done: Der Titel", "Next I'll translate the subtitle.", "Done: Der Untertitel"),
	exchange("git_show {\"commit\":\"a81f3c2\"}", "Fix typo", "git_show {\"commit\":\"b7702de\"}", "Fix typo"),
	exchange("I think the draft needs a stronger introduction paragraph.", "Reviewer: better, but the conclusion is weak.", "The draft needs a stronger conclusion paragraph.", "Reviewer: better, but shorten it."),
}
