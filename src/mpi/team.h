/* team.h: the processes of an MPI job as a team that divides tasks, and the file of finished parts.
 * Private to mpi/. */
#ifndef LK_MPI_TEAM_H
#define LK_MPI_TEAM_H

#include "lockstep/plan.h"

typedef struct mpi_team {
	lk_plan_team team; /* first: the part known to lockstep */
	int rank, size;
	const char *path; /* of finished parts; NULL none */
	uint64_t asked;   /* hash of the command */
	char *parts;      /* finished so far, in sequence */
	size_t parts_size, room;
	size_t read_at, read_size; /* parts that were read, and how far they have been used */
} mpi_team;

/* Read `path` if it exists (on rank 0, for all). LK_ERR_INPUT: it is of another command. */
lk_status mpi_team_open(mpi_team *team, const char *path, uint64_t asked, lk_error *err);
void mpi_team_close(mpi_team *team);

#endif
