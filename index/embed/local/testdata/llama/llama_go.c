/* The library that github.com/kelindar/search 0.4 looks for, for tests: its
 * seven functions on top of a prebuilt libllama (release b4753, as in the npm
 * package @node-llama-cpp/linux-x64 3.6.0). It behaves as the library that
 * kelindar/search builds: mean pooling and normalisation are the model's and
 * its own, and it prints to standard output, where a worker must not let it.
 *
 * The declarations below are what this file needs of llama.cpp's C interface. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct llama_model llama_model;
typedef struct llama_context llama_context;
typedef struct llama_vocab llama_vocab;

struct llama_model_params {
    void *devices;
    int32_t n_gpu_layers;
    int32_t split_mode;
    int32_t main_gpu;
    const float *tensor_split;
    void *progress_callback;
    void *progress_callback_user_data;
    const void *kv_overrides;
    bool vocab_only, use_mmap, use_mlock, check_tensors;
};

struct llama_context_params {
    uint32_t n_ctx, n_batch, n_ubatch, n_seq_max;
    int32_t n_threads, n_threads_batch;
    int32_t rope_scaling_type, pooling_type, attention_type;
    float rope_freq_base, rope_freq_scale;
    float yarn_ext_factor, yarn_attn_factor, yarn_beta_fast, yarn_beta_slow;
    uint32_t yarn_orig_ctx;
    float defrag_thold;
    void *cb_eval;
    void *cb_eval_user_data;
    int32_t type_k, type_v;
    bool logits_all, embeddings, offload_kqv, flash_attn, no_perf;
    void *abort_callback;
    void *abort_callback_data;
};

struct llama_batch {
    int32_t n_tokens;
    int32_t *token;
    float *embd;
    int32_t *pos;
    int32_t *n_seq_id;
    int32_t **seq_id;
    int8_t *logits;
};

void ggml_backend_load_all_from_path(const char *path);
void llama_backend_init(void);
void llama_log_set(void (*log)(int level, const char *text, void *data), void *data);
struct llama_model_params llama_model_default_params(void);
struct llama_context_params llama_context_default_params(void);
llama_model *llama_model_load_from_file(const char *path, struct llama_model_params params);
void llama_model_free(llama_model *model);
llama_context *llama_init_from_model(llama_model *model, struct llama_context_params params);
void llama_free(llama_context *ctx);
const llama_model *llama_get_model(const llama_context *ctx);
const llama_vocab *llama_model_get_vocab(const llama_model *model);
int32_t llama_model_n_embd(const llama_model *model);
bool llama_model_has_encoder(const llama_model *model);
bool llama_model_has_decoder(const llama_model *model);
int32_t llama_vocab_sep(const llama_vocab *vocab);
uint32_t llama_n_batch(const llama_context *ctx);
int llama_pooling_type(const llama_context *ctx);
void llama_kv_cache_clear(llama_context *ctx);
int32_t llama_tokenize(const llama_vocab *vocab, const char *text, int32_t length, int32_t *tokens, int32_t max, bool add_special, bool parse_special);
struct llama_batch llama_batch_init(int32_t n_tokens, int32_t embd, int32_t n_seq_max);
void llama_batch_free(struct llama_batch batch);
int32_t llama_encode(llama_context *ctx, struct llama_batch batch);
int32_t llama_decode(llama_context *ctx, struct llama_batch batch);
float *llama_get_embeddings_seq(llama_context *ctx, int32_t seq_id);

static int desired;

static void log_text(int level, const char *text, void *data) {
    (void)data;
    if (level >= desired) {
        fputs(text, stderr);
        fflush(stderr);
    }
}

void load_library(int level) {
    desired = level;
    puts("llama.cpp prints where it pleases");
    fflush(stdout);
    llama_log_set(log_text, NULL);
    ggml_backend_load_all_from_path(LLAMA_DIR);
    llama_backend_init();
}

llama_model *load_model(const char *path, uint32_t gpu_layers) {
    struct llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = (int32_t)gpu_layers;
    return llama_model_load_from_file(path, params);
}

void free_model(llama_model *model) { llama_model_free(model); }

llama_context *load_context(llama_model *model, uint32_t size, bool embeddings) {
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = size;
    params.embeddings = embeddings;
    /* The default is four threads that wait for each other in busy loops, which
     * takes seconds per text where other tests keep the cores busy. */
    params.n_threads = params.n_threads_batch = 1;
    return llama_init_from_model(model, params);
}

void free_context(llama_context *ctx) { llama_free(ctx); }

int32_t embed_size(llama_model *model) {
    if (llama_model_has_encoder(model) && llama_model_has_decoder(model)) {
        return -1;
    }
    return llama_model_n_embd(model);
}

/* Texts of the tests that the worker must survive. */
static void misbehave(const char *text) {
    if (strstr(text, "please crash now")) {
        fputs("GGML_ASSERT(n_ubatch >= n_tokens) failed\n", stderr);
        abort();
    }
    if (strstr(text, "please hang now")) {
        for (volatile int i = 0;; i++) {
        }
    }
}

int embed_text(llama_context *ctx, const char *text, float *out, uint32_t *out_tokens) {
    const llama_model *model = llama_get_model(ctx);
    const llama_vocab *vocab = llama_model_get_vocab(model);
    misbehave(text);
    int32_t length = (int32_t)strlen(text), max = length + 8;
    int32_t *tokens = malloc(sizeof *tokens * (size_t)max);
    int32_t n = llama_tokenize(vocab, text, length, tokens, max, true, true);
    *out_tokens = n < 0 ? (uint32_t)-n : (uint32_t)n;
    if (getenv("LLAMA_GO_TOKENS")) {
        fprintf(stderr, "tokens: %d\n", n);
    }
    int result = 0;
    if (n < 0 || (uint32_t)n > llama_n_batch(ctx)) {
        puts("Number of tokens exceeds batch size, increase batch size");
        result = 1;
    } else if (n == 0 || tokens[n - 1] != llama_vocab_sep(vocab)) {
        result = 2;
    }
    if (result == 0) {
        struct llama_batch batch = llama_batch_init(n, 0, 1);
        for (int32_t i = 0; i < n; i++) {
            batch.token[i] = tokens[i];
            batch.pos[i] = i;
            batch.n_seq_id[i] = 1;
            batch.seq_id[i][0] = 0;
            batch.logits[i] = 1;
        }
        batch.n_tokens = n;
        llama_kv_cache_clear(ctx);
        /* To llama.cpp only T5 has an encoder; BERT is "decoded". */
        int32_t failed = llama_model_has_encoder(model) ? llama_encode(ctx, batch) : llama_decode(ctx, batch);
        if (failed < 0) {
            result = 3;
        } else {
            const float *values = llama_get_embeddings_seq(ctx, 0);
            int32_t size = llama_model_n_embd(model);
            double sum = 0;
            for (int32_t i = 0; i < size; i++) {
                sum += (double)values[i] * values[i];
            }
            for (int32_t i = 0; i < size; i++) {
                out[i] = sum > 0 ? (float)(values[i] / sqrt(sum)) : 0;
            }
        }
        llama_batch_free(batch);
    }
    free(tokens);
    return result;
}
