package models

import (
	"slices"
	"strings"
)

// A Known model can be installed by its name.
type Known struct {
	Name  string `json:"name"`
	About string `json:"about"`
	// URL is pinned to one revision of the repository.
	URL    string `json:"url"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"` // bytes
	// License is that of the weights.
	License string `json:"license"`
	// QueryPrefix and DocumentPrefix are what the model expects before the
	// texts of their kind.
	QueryPrefix    string `json:"queryPrefix,omitempty"`
	DocumentPrefix string `json:"documentPrefix,omitempty"`
}

// known are small BERT models that kelindar/search can run. Their checksums
// were not computed here: each is the one that several projects, independent of
// each other, state in their sources for this very file. If one were wrong,
// the installation would fail, rather than install something else.
var known = []Known{
	{
		Name: "all-minilm-l6-v2", About: "English sentences, 384 numbers, the smallest",
		URL:    "https://huggingface.co/second-state/All-MiniLM-L6-v2-Embedding-GGUF/resolve/544f204f2eaa2d71361ffc74d6df7170285b286a/all-MiniLM-L6-v2-Q8_0.gguf",
		SHA256: "263215c3cadd6e16740741a7624ab4cbb6c8e777688bd5331ecfbf5681c2f8ed", Size: 25_008_064, License: "Apache-2.0",
	},
	{
		Name: "bge-small-en-v1.5", About: "English search, 384 numbers",
		URL:    "https://huggingface.co/CompendiumLabs/bge-small-en-v1.5-gguf/resolve/d32f8c040ea3b516330eeb75b72bcc2d3a780ab7/bge-small-en-v1.5-q8_0.gguf",
		SHA256: "ec38e8da142596baa913124ae50550de284b6916bf59577ef2f0cb9660c2f514", Size: 36_806_944, License: "MIT",
		QueryPrefix: "Represent this sentence for searching relevant passages: ",
	},
}

// Catalogue returns the known models.
func Catalogue() []Known { return slices.Clone(known) }

func find(name string) (Known, bool) {
	for _, k := range known {
		if strings.EqualFold(k.Name, name) {
			return k, true
		}
	}
	return Known{}, false
}
