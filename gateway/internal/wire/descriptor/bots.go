package descriptor

import "strings"

// The categories of bots, as Fairvisor names them.
const (
	aiCrawler   = "ai_crawler"
	aiAssistant = "ai_assistant_user"
	searcher    = "search_engine"
	otherBot    = "other_bot"
)

// bots are the categories of well-known bots by a part of their User-Agent, in
// lower case; those that contain another one stand before it.
var bots = []struct{ part, category string }{
	{"oai-searchbot", aiCrawler}, {"gptbot", aiCrawler}, {"chatgpt-user", aiAssistant},
	{"claude-searchbot", aiCrawler}, {"claude-user", aiAssistant}, {"claude-web", aiAssistant}, {"claudebot", aiCrawler}, {"anthropic-ai", aiCrawler},
	{"perplexity-user", aiAssistant}, {"perplexitybot", aiCrawler}, {"mistralai-user", aiAssistant}, {"duckassistbot", aiAssistant},
	{"meta-externalfetcher", aiCrawler}, {"meta-externalagent", aiCrawler}, {"facebookbot", aiCrawler},
	{"google-extended", aiCrawler}, {"google-cloudvertexbot", aiCrawler}, {"bytespider", aiCrawler}, {"ccbot", aiCrawler}, {"cohere-ai", aiCrawler},
	{"diffbot", aiCrawler}, {"ai2bot", aiCrawler}, {"omgili", aiCrawler}, {"timpibot", aiCrawler}, {"youbot", aiCrawler},
	{"applebot-extended", searcher}, {"applebot", searcher}, {"googlebot", searcher}, {"bingbot", searcher}, {"duckduckbot", searcher},
	{"yandexbot", searcher}, {"baiduspider", searcher}, {"petalbot", searcher}, {"sogou", searcher}, {"slurp", searcher},
	{"amazonbot", otherBot}, {"ahrefsbot", otherBot}, {"semrushbot", otherBot}, {"mj12bot", otherBot}, {"dotbot", otherBot}, {"dataforseobot", otherBot},
	{"facebookexternalhit", otherBot}, {"twitterbot", otherBot}, {"linkedinbot", otherBot}, {"slackbot", otherBot}, {"telegrambot", otherBot},
	{"discordbot", otherBot}, {"pinterestbot", otherBot}, {"uptimerobot", otherBot}, {"ia_archiver", otherBot}, {"scrapy", otherBot},
}

// botCategory returns the category of a User-Agent; "" for one of no known bot.
func botCategory(agent string) string {
	agent = strings.ToLower(agent)
	for _, b := range bots {
		if strings.Contains(agent, b.part) {
			return b.category
		}
	}
	return ""
}
