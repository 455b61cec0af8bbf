/* mcp_messages.c: lines of standard output. */
#include "mcp/mcp_internal.h"

#include <stdlib.h>

#include "system/memory.h"

bool lk_mcp_begin(lk_mcp_message *message) {
	*message = (lk_mcp_message){0};
	message->out = lk_memory_open(&message->text, &message->size);
	if (!message->out) return false;
	lk_json_begin(&message->writer, message->out, true);
	lk_json_object(&message->writer, NULL);
	lk_json_put_text(&message->writer, "jsonrpc", "2.0");
	return true;
}

void lk_mcp_send(lk_mcp_server *server, lk_mcp_message *message) {
	lk_json_object_end(&message->writer);
	bool whole = lk_json_finish(&message->writer, NULL) == LK_OK;
	whole = lk_memory_close(message->out) && whole;
	pthread_mutex_lock(&server->lock);
	if (whole) fwrite(message->text, 1, message->size, stdout);
	if (!whole || fflush(stdout) != 0) server->lost = true;
	pthread_mutex_unlock(&server->lock);
	free(message->text);
}

void lk_mcp_put_id(lk_json_writer *writer, const lk_value *id) {
	if (id) lk_json_put_value(writer, "id", id);
	else lk_json_put_null(writer, "id");
}

void lk_mcp_send_error(lk_mcp_server *server, const lk_value *id, int code, const char *text) {
	lk_mcp_message m;
	if (!lk_mcp_begin(&m)) return;
	lk_mcp_put_id(&m.writer, id);
	lk_json_object(&m.writer, "error");
	lk_json_put_integer(&m.writer, "code", code);
	lk_json_put_text(&m.writer, "message", text);
	lk_json_object_end(&m.writer);
	lk_mcp_send(server, &m);
}
