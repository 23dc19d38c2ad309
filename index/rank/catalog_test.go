package rank

import "strings"

// shop is a small catalog of tools as real servers have them: server, tool,
// description, and parameters with a colon before each description.
var shop = parseShop(`
github | create_issue | Create a new issue in a repository | owner: Repository owner; repo: Repository name; title: Issue title; body: Issue text
github | list_issues | List issues in a repository, with filters | owner: Repository owner; repo: Repository name; state: open or closed
github | create_pull_request | Open a new pull request | repo: Repository name; head: Branch with the changes; base: Branch to merge into
github | merge_pull_request | Merge a pull request | repo: Repository name; pull_number: Number of the pull request
github | search_code | Search source code across repositories | q: Search expression
github | fork_repository | Fork a repository to your account | repo: Repository name
browser | take_screenshot | Take a screenshot of the current page or of an element | selector: CSS selector; fullPage: whole page
browser | navigate | Open a URL in the browser | url: Address to open
browser | click | Click an element on the page | selector: CSS selector
browser | fill_form | Fill in form fields | fields: Names and values
browser | savePdf | Print the page to a PDF file | path: File to write
files | read_file | Read the contents of a file | path: File path
files | write_file | Write text to a file, replacing it | path: File path; content: New text
files | list_directory | List files and folders in a directory | path: Directory
files | move_file | Move or rename a file | source: Old path; destination: New path
files | delete_file | Delete a file for good | path: File path
kube | pods_list | List the pods of a Kubernetes namespace | namespace: Namespace
kube | pods_delete | Delete a pod | name: Pod name
kube | pods_log | Fetch the logs of a pod | name: Pod name; tail: Number of lines
kube | deployments_scale | Scale a deployment to a number of replicas | name: Deployment; replicas: Count
vault | keyvault_secret_get | Read a secret value | vault: Vault name; secret: Secret name
vault | keyvault_secret_create | Create or overwrite a secret | vault: Vault name; secret: Secret name; value: Value
vault | keyvault_secret_delete | Delete a secret | vault: Vault name; secret: Secret name
vault | certificate_list | List certificates and when they expire | vault: Vault name
postgres | query | Run a read-only SQL query | sql: Statement
postgres | list_tables | List tables of the database | schema: Schema
postgres | describe_table | Show the columns and types of a table | table: Table name
slack | slack_post_message | Post a message to a channel | channel_id: Channel; text: Message
slack | slack_list_channels | List public channels of the workspace | limit: Count
slack | slack_get_users | List the users of the workspace with their profiles |
mail | send_email | Send an email with attachments | to: Recipients; subject: Subject line; body: Text
mail | search_emails | Search the mailbox | query: Words to look for
mail | draft_email | Write an email without sending it | to: Recipients; body: Text
calendar | create_event | Create an event in the calendar | start: Start time; end: End time; attendees: People
calendar | list_events | List the calendar's events between two dates | from: Date; to: Date
calendar | delete_event | Cancel an event | event_id: Event
weather | get_forecast | Weather forecast for a place | latitude: Latitude; longitude: Longitude
weather | get_alerts | Weather warnings in force for a state | state: State
maps | geocode | Turn an address into coordinates | address: Address
maps | reverse_geocode | Turn coordinates into an address | lat: Latitude; lng: Longitude
maps | directions | Route between two places by car, bicycle or on foot | origin: Start; destination: End
maps | search_places | Find restaurants, shops and other places | query: What to look for
s3 | s3_upload | Upload an object to an S3 bucket | bucket: Bucket; key: Object key
s3 | s3_list_buckets | List S3 buckets of the account |
finance | get_stock_price | Latest price of a share | symbol: Ticker symbol
finance | getExchangeRate | Exchange rate between two currencies | from: Currency; to: Currency
finance | 查询股票 | 查询股票的实时价格和涨跌 | code: 股票代码
charts | generate_bar_chart | Draw a bar chart from data | data: Rows
charts | generate_pie_chart | Draw a pie chart from data | data: Rows
`)

func parseShop(text string) (docs []Doc) {
	for line := range strings.Lines(strings.TrimSpace(text)) {
		f := strings.Split(strings.TrimSpace(line), "|")
		d := Doc{Server: strings.TrimSpace(f[0]), Tool: strings.TrimSpace(f[1]), Description: strings.TrimSpace(f[2])}
		for p := range strings.SplitSeq(f[3], ";") {
			if name, about, ok := strings.Cut(p, ":"); ok {
				d.Params = append(d.Params, Param{strings.TrimSpace(name), strings.TrimSpace(about)})
			}
		}
		docs = append(docs, d)
	}
	return docs
}

func build(docs []Doc) *Index {
	terms := make([]*Terms, len(docs))
	for i, d := range docs {
		terms[i] = Analyze(d)
	}
	return Build(terms)
}

// names lists hits as server/tool.
func names(docs []Doc, hits []Hit) []string {
	out := make([]string, len(hits))
	for i, h := range hits {
		out[i] = docs[h.Doc].Server + "/" + docs[h.Doc].Tool
	}
	return out
}
