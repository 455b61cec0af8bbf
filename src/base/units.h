/* units.h: constants of units. */
#ifndef LK_BASE_UNITS_H
#define LK_BASE_UNITS_H

#define LK_KIB      1024.0
#define LK_MIB      (1024.0 * 1024.0)
#define LK_GIB      (1024.0 * 1024.0 * 1024.0)
#define LK_PS_PER_S 1e12

#endif
