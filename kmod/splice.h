/* SPDX-License-Identifier: GPL-2.0 */
/* splice() and sendfile() */
#ifndef L5_SPLICE_H
#define L5_SPLICE_H

#include "l5.h"

#if L5_OLD_SPLICE
ssize_t l5_sendpage(struct socket *sock, struct page *page, int offset,
		    size_t size, int flags);
#else
void l5_splice_eof(struct socket *sock);
#endif
ssize_t l5_splice_read(struct socket *sock, loff_t *ppos,
		       struct pipe_inode_info *pipe, size_t len,
		       unsigned int flags);
ssize_t l5_packet_splice_read(struct socket *sock, loff_t *ppos,
			      struct pipe_inode_info *pipe, size_t len,
			      unsigned int flags);

#endif /* L5_SPLICE_H */
