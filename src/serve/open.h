/* open.h: the page, opened in the user's browser. */
#ifndef LK_SERVE_OPEN_H
#define LK_SERVE_OPEN_H

#include <signal.h>
#include <stdbool.h>

/* Opens the address with a command of $BROWSER, or xdg-open. What the command is given is a page below `folder` that
 * leads there and that only this user can read: the address holds the token, and all users of a machine see the
 * words of commands. The command gets the signal mask, and nothing of what this process has open. False where none
 * could be started. */
bool lk_open_browser(const char *folder, const char *url, const sigset_t *mask);

#endif
