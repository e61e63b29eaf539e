// SPDX-License-Identifier: GPL-2.0
/*
 * A device that stands still: as long as this is loaded rxe does not send what
 * was posted, and does not fail it either. The queue pairs of the connection
 * manager, which belong to the whole device, go on.
 */
#include <linux/kprobes.h>
#include <linux/linkage.h>
#include <linux/module.h>
#include <rdma/ib_verbs.h>

#include <asm/ibt.h>

void still_return(void);

#define STILL_RETURN	".pushsection .text\n"			\
			".type still_return, @function\n"	\
			"still_return:\n"			\
			ASM_ENDBR				\
			ASM_RET					\
			".size still_return, .-still_return\n"	\
			".popsection\n"

asm(STILL_RETURN);

/* A queue pair's task, given its first argument: there is nothing to do. */
static int still_task(struct kprobe *p, struct pt_regs *regs)
{
	const struct ib_qp *qp = (void *)regs_get_kernel_argument(regs, 0);

	if (qp->qp_type != IB_QPT_RC)
		return 0;
	regs_set_return_value(regs, -EAGAIN);
	instruction_pointer_set(regs, (unsigned long)still_return);
	return 1;
}

/* The function of Linux 6.12, or those of 6.1 */
static struct kprobe still_one = {
	.symbol_name = "rxe_sender",
	.pre_handler = still_task,
};

static struct kprobe still_requester = {
	.symbol_name = "rxe_requester",
	.pre_handler = still_task,
};

static struct kprobe still_completer = {
	.symbol_name = "rxe_completer",
	.pre_handler = still_task,
};

static struct kprobe *still_two[] = { &still_requester, &still_completer };
static bool still_both;

static int __init still_init(void)
{
	if (!register_kprobe(&still_one))
		return 0;
	still_both = true;
	return register_kprobes(still_two, ARRAY_SIZE(still_two));
}

static void __exit still_exit(void)
{
	if (still_both)
		unregister_kprobes(still_two, ARRAY_SIZE(still_two));
	else
		unregister_kprobe(&still_one);
}

module_init(still_init);
module_exit(still_exit);
MODULE_DESCRIPTION("rxe stands still");
MODULE_LICENSE("GPL");
