// Stands in for the audio decoder whose header is missing from the Go module
// zip (Go leaves out folders called "vendor"). Text models never decode audio;
// whoever asks is told that it is not supported.
#pragma once
typedef int ma_result;
typedef unsigned long long ma_uint64;
enum { MA_SUCCESS = 0, MA_UNSUPPORTED = -1 };
enum { ma_format_f32 = 5 };
struct ma_decoder_config {};
struct ma_decoder {};
static inline ma_decoder_config ma_decoder_config_init(int, unsigned, unsigned) { return {}; }
static inline ma_result ma_decoder_init_memory(const void *, unsigned long, const ma_decoder_config *, ma_decoder *) { return MA_UNSUPPORTED; }
static inline ma_result ma_decoder_get_length_in_pcm_frames(ma_decoder *, ma_uint64 *) { return MA_UNSUPPORTED; }
static inline ma_result ma_decoder_read_pcm_frames(ma_decoder *, void *, ma_uint64, ma_uint64 *) { return MA_UNSUPPORTED; }
static inline void ma_decoder_uninit(ma_decoder *) {}
