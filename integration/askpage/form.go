package askpage

import (
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/metamcp/metamcp/integration/registry"
)

const style = `:root{color-scheme:light dark}` +
	`body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem}` +
	`label{display:block;font-weight:600;margin-top:1.2rem}` +
	`input,select{font:inherit;width:100%;box-sizing:border-box;padding:.4rem;margin-top:.2rem}` +
	`button{font:inherit;padding:.4rem 1.2rem;margin:1.6rem .6rem 0 0}` +
	`dt{font-weight:600}dd{margin:0 0 .5rem}small{display:block;font-weight:400;opacity:.8}` +
	`.wrong{border:1px solid #c33;padding:.5rem .8rem}` +
	`dd,small,p{overflow-wrap:anywhere}`

// policy lets the page load nothing, and be answered to where it is from alone.
var policy = sync.OnceValue(func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
})

const head = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="robots" content="noindex"><title>metamcp</title><style>` + style + `</style>`

var plainPage = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("plain").Parse(head + `<p>{{.Text}}</p>` + "\n"))
})

var formPage = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("form").Parse(head + `<h1>{{.Server}} needs values</h1>
<dl><dt>Server</dt><dd>{{.Server}}</dd>
{{with .Package}}<dt>Package</dt><dd>{{.}}</dd>{{end}}
<dt>Asked for by</dt><dd>{{.Asker}}</dd>
<dt>Why</dt><dd>{{.Why}}</dd></dl>
<p>What you enter goes to metamcp on the machine where it runs, which keeps it and hands it to this server. The client and its model do not see it. If you did not expect this page, do not answer it.</p>
{{with .Wrong}}<p class="wrong">{{.}}</p>{{end}}
<form method="post" autocomplete="off"><input type="hidden" name="csrf" value="{{.CSRF}}">
{{range .Fields}}<label for="{{.ID}}">{{.Name}}{{with .Description}}<small>Its description says: {{.}}</small>{{end}}</label>
{{if .Choices}}<select id="{{.ID}}" name="{{.ID}}">{{range .Choices}}<option>{{.}}</option>{{end}}</select>
{{else}}<input id="{{.ID}}" name="{{.ID}}" type="{{.Type}}" autocomplete="off" spellcheck="false" autocapitalize="off" value="{{.Value}}">
{{end}}{{end}}
<button name="do" value="keep">Keep</button><button name="do" value="decline">Do not give them</button></form>
`))
})

// shownField is a field as the form has it.
type shownField struct {
	ID, Name, Description, Type, Value string
	Choices                            []string
}

func fieldName(i int) string { return "v" + strconv.Itoa(i) }

// form writes the form. What was entered comes back, but for secrets.
func (p *Page) form(w http.ResponseWriter, status int, wrong string, values map[string]string) {
	data := struct {
		Server, Package, Asker, Why, CSRF, Wrong string
		Fields                                   []shownField
	}{Clean(p.q.Server), Clean(p.q.Package), Clean(p.q.Asker), Clean(p.q.Why), p.csrf, wrong, nil}
	for i := range p.q.Fields {
		f := &p.q.Fields[i]
		s := shownField{ID: fieldName(i), Name: Clean(f.Name), Description: Clean(f.Description), Type: "text", Choices: f.Choices}
		if f.Secret {
			s.Type = "password"
		} else {
			s.Value = values[f.Name]
		}
		data.Fields = append(data.Fields, s)
	}
	w.WriteHeader(status)
	_ = formPage().Execute(w, data) // who is gone needs no answer
}

// Clean makes one line of somebody else's text, without characters that nobody
// sees, and of at most 500 bytes.
func Clean(text string) string {
	const most = 500
	text = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if registry.HiddenAlone(r) {
			return ' '
		}
		return r
	}, text)), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
