package index

import (
	"crypto/sha256"
	"sync/atomic"

	"github.com/metamcp/metamcp/index/vector"
	"github.com/metamcp/metamcp/messages"
)

// backgroundTools are tools of many kinds that stand for the world: how alike a
// query is to them tells how alike is nothing special. Where few tools are
// known, or all are of one kind, nothing else could tell that.
var backgroundTools = [][2]string{
	{"send_email", "Send an email message to one or more recipients."},
	{"create_event", "Create an event in a calendar with start and end time."},
	{"create_issue", "Open a new issue in a repository of source code."},
	{"merge_pull_request", "Merge a pull request into its base branch."},
	{"run_query", "Run an SQL query against the database and return the rows."},
	{"list_tables", "List all tables of a database schema."},
	{"read_file", "Read the contents of a file from disk."},
	{"list_directory", "List files and folders in a directory."},
	{"take_screenshot", "Take a screenshot of the current web page."},
	{"click_element", "Click an element on the page by its selector."},
	{"web_search", "Search the web and return the top results."},
	{"fetch_url", "Fetch a web page and convert it to text."},
	{"get_forecast", "Get the weather forecast for a city."},
	{"translate_text", "Translate text from one language to another."},
	{"get_stock_price", "Get the latest price of a stock by its symbol."},
	{"convert_currency", "Convert an amount between two currencies."},
	{"create_invoice", "Create an invoice for a customer."},
	{"refund_payment", "Refund a payment that was charged to a card."},
	{"send_message", "Post a message to a chat channel."},
	{"list_contacts", "List the contacts of the address book."},
	{"play_track", "Play a song or an album on a device."},
	{"generate_image", "Generate an image from a text prompt."},
	{"transcribe_audio", "Transcribe speech in an audio file to text."},
	{"resize_image", "Resize an image to a given width and height."},
	{"book_flight", "Search and book a flight between two airports."},
	{"get_directions", "Get driving directions between two places."},
	{"track_package", "Track the delivery of a parcel."},
	{"add_note", "Store a note or a fact in memory for later."},
	{"add_numbers", "Add two numbers and return the sum."},
	{"get_time", "Get the current time in a time zone."},
	{"restart_container", "Restart a running container."},
	{"deploy_application", "Deploy a new version of an application to the cluster."},
	{"get_logs", "Get the logs of a service in a time range."},
	{"create_alert", "Create an alert that fires when a metric is too high."},
	{"list_users", "List the users of an organization and their roles."},
	{"reset_password", "Reset the password of a user account."},
	{"encrypt_data", "Encrypt data with a key."},
	{"run_code", "Run a piece of code in a sandbox and return its output."},
	{"find_recipe", "Find recipes by their ingredients."},
	{"log_workout", "Record a workout with its duration and calories."},
}

// background is those tools as one index embeds them. Its passages belong to
// the embedding worker.
type background struct {
	passages []*passage
	set      atomic.Pointer[vectorSet]
}

func newBackground() *background {
	b := &background{passages: make([]*passage, len(backgroundTools))}
	for i, t := range backgroundTools {
		b.passages[i] = &passage{tool: &messages.Tool{Definition: &messages.Definition{Name: t[0], Description: t[1]}}, around: &around{}}
		b.passages[i].means()
	}
	return b
}

// pending returns the passages without a vector by the model.
func (b *background) pending(model string) []*passage {
	var out []*passage
	for _, p := range b.passages {
		if have := p.vector.Load(); have == nil || have.model != model {
			out = append(out, p)
		}
	}
	return out
}

// of returns the vectors by a model; nil until all are there.
func (b *background) of(model string) *vector.Set {
	if b == nil {
		return nil
	}
	if v := b.set.Load(); v != nil && v.model == model {
		return v.set
	}
	rows := make([]*vector.Row, len(b.passages))
	for i, p := range b.passages {
		if rows[i] = p.of(model); rows[i] == nil {
			return nil
		}
	}
	v := &vectorSet{model: model, set: vector.NewSet(rows)}
	b.set.Store(v)
	return v.set
}

// keys adds the hashes that the vectors are kept under.
func (b *background) keys(hashes map[[sha256.Size]byte]struct{}) {
	for _, p := range b.passages {
		hashes[p.key()] = struct{}{}
	}
}
