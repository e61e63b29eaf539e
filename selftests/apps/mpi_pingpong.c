// SPDX-License-Identifier: GPL-2.0
/*
 * Two processes by MPI: messages of all sizes there and back, one way while
 * the other comes, and sums over both.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST	1048576

static unsigned char *out, *in;

static void fill(int len, int seed)
{
	int i;

	for (i = 0; i < len; i++)
		out[i] = i * 31 + seed;
}

static int wrong(int len, int seed)
{
	int i, n = 0;

	for (i = 0; i < len; i++)
		n += in[i] != (unsigned char)(i * 31 + seed);
	return n;
}

int main(int argc, char **argv)
{
	int rank, size, len, i, bad = 0, all;
	MPI_Request req[2];
	long sum, one;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	out = malloc(MOST);
	in = malloc(MOST);
	if (size != 2 || !out || !in)
		MPI_Abort(MPI_COMM_WORLD, 2);
	for (len = 1; len <= MOST; len *= 4) {
		for (i = 0; i < 20; i++) {
			fill(len, i);
			if (rank)
				MPI_Recv(in, len, MPI_BYTE, 0, i,
					 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Send(out, len, MPI_BYTE, !rank, i, MPI_COMM_WORLD);
			if (!rank)
				MPI_Recv(in, len, MPI_BYTE, 1, i,
					 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			bad += wrong(len, i);
		}
		MPI_Irecv(in, len, MPI_BYTE, !rank, 99, MPI_COMM_WORLD,
			  &req[0]);
		MPI_Isend(out, len, MPI_BYTE, !rank, 99, MPI_COMM_WORLD,
			  &req[1]);
		MPI_Waitall(2, req, MPI_STATUSES_IGNORE);
		bad += wrong(len, 19);
	}
	for (i = sum = 0; i < 100; i++) {
		one = (rank + 1) * i;
		MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_LONG, MPI_SUM,
			      MPI_COMM_WORLD);
		sum += one;
	}
	MPI_Reduce(&bad, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	if (!rank)
		printf("%d processes, sum %ld, %d bytes wrong\n", size, sum,
		       all);
	MPI_Finalize();
	return bad != 0;
}
