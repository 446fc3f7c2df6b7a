/* Rules that rewrite composite ops; a rule leaves a node as it is when it needs sizes that are not
 * known yet. */
#ifndef TN_LOWER_H
#define TN_LOWER_H

#include "fusion/rewrite.h"

/* X(op, function) */
#define TN_LOWER_LIST(X)                                     \
    X(conv1d, conv1d)                                        \
    X(conv2d, conv2d)                                        \
    X(conv3d, conv3d)                                        \
    X(conv1d_padding, conv1d)                                \
    X(conv2d_padding, conv2d)                                \
    X(conv3d_padding, conv3d)                                \
    X(conv_transpose1d, conv_transpose1d)                    \
    X(conv_transpose2d_input, conv_transpose2d)              \
    X(conv_transpose3d_input, conv_transpose3d)              \
    X(batch_norm, batch_norm)                                \
    X(native_batch_norm, batch_norm_legit)                   \
    X(_native_batch_norm_legit_functional, batch_norm_legit) \
    X(instance_norm, instance_norm)                          \
    X(_fused_rms_norm, fused_rms_norm)                       \
    X(layer_norm, layer_norm)                                \
    X(group_norm, group_norm)                                \
    X(_weight_norm, weight_norm)                             \
    X(_weight_norm_interface, weight_norm)                   \
    X(norm_except_dim, norm_except_dim)                      \
    X(softmax_int, softmax)                                  \
    X(log_softmax_int, log_softmax)                          \
    X(_safe_softmax, safe_softmax)                           \
    X(std_mean_correction, std_mean)                         \
    X(cosine_similarity, cosine_similarity)                  \
    X(to_dtype, to_dtype)                                    \
    X(to_device, to_dtype)                                   \
    X(to_dtype_layout, to_dtype)                             \
    X(to_other, to_other)                                    \
    X(type_as, to_other)                                     \
    X(copy, copy)                                            \
    X(dropout, dropout)                                      \
    X(alpha_dropout, dropout)                                \
    X(feature_dropout, dropout)                              \
    X(native_dropout, native_dropout)                        \
    X(pad, pad)                                              \
    X(diff, diff)                                            \
    X(glu, glu)                                              \
    X(rot90, rot90)                                          \
    X(logaddexp, logaddexp)                                  \
    X(hstack, hstack)                                        \
    X(vstack, vstack)                                        \
    X(broadcast_tensors, broadcast_tensors)                  \
    X(max_pool2d_with_indices, max_pool2d)                   \
    X(max_pool3d_with_indices, max_pool3d)                   \
    X(max_pool2d_with_indices_backward, max_pool_backward)   \
    X(matmul, matmul)                                        \
    X(einsum, einsum)                                        \
    X(outer, outer)                                          \
    X(inner, inner)                                          \
    X(addbmm, addbmm)                                        \
    X(bilinear, bilinear)                                    \
    X(tensordot, tensordot)                                  \
    X(logaddexp2, logaddexp2)                                \
    X(float_power_Tensor_Tensor, float_power)                \
    X(float_power_Scalar, float_power)                       \
    X(float_power_Tensor_Scalar, float_power)                \
    X(nansum, nansum)                                        \
    X(nanmean, nanmean)                                      \
    X(aminmax, aminmax)                                      \
    X(median, median)                                        \
    X(nanmedian, median)                                     \
    X(median_dim, median_dim)                                \
    X(nanmedian_dim, median_dim)                             \
    X(kthvalue, kthvalue)                                    \
    X(norm_Scalar, norm)                                     \
    X(norm_ScalarOpt_dtype, norm)                            \
    X(norm_ScalarOpt_dim_dtype, norm)                        \
    X(frobenius_norm_dim, norm)                              \
    X(isin_Tensor_Tensor, isin)                              \
    X(isin_Tensor_Scalar, isin)                              \
    X(isin_Scalar_Tensor, isin)                              \
    X(renorm, renorm)                                        \
    X(cross, cross)                                          \
    X(linalg_cross, cross)                                   \
    X(diag_embed, diag_embed)                                \
    X(block_diag, block_diag)                                \
    X(kron, kron)                                            \
    X(max_unpool2d, max_unpool)                              \
    X(max_unpool3d, max_unpool)                              \
    X(_convolution, convolution)                             \
    X(_scaled_dot_product_flash_attention_for_cpu, flash_attention)

/* Those whose shape rule is the formula itself (composite.h). */
#define TN_COMPOSITE_LIST(X)                                        \
    X(alias_copy, renamed)                                          \
    X(as_strided_copy, renamed)                                     \
    X(detach_copy, renamed)                                         \
    X(diagonal_copy, renamed)                                       \
    X(expand_copy, renamed)                                         \
    X(narrow_copy, renamed)                                         \
    X(permute_copy, renamed)                                        \
    X(select_copy_int, renamed)                                     \
    X(slice_copy_Tensor, renamed)                                   \
    X(split_copy_Tensor, renamed)                                   \
    X(split_with_sizes_copy, renamed)                               \
    X(squeeze_copy, renamed)                                        \
    X(squeeze_copy_dim, renamed)                                    \
    X(squeeze_copy_dims, renamed)                                   \
    X(t_copy, renamed)                                              \
    X(transpose_copy_int, renamed)                                  \
    X(unbind_copy_int, renamed)                                     \
    X(unfold_copy, renamed)                                         \
    X(unsqueeze_copy, renamed)                                      \
    X(view_copy, renamed)                                           \
    X(unsafe_split_Tensor, renamed)                                 \
    X(unsafe_split_with_sizes, renamed)                             \
    X(unsafe_chunk, renamed)                                        \
    X(linalg_diagonal, renamed)                                     \
    X(conj_physical, renamed)                                       \
    X(vdot, renamed)                                                \
    X(narrow_Tensor, narrow_tensor)                                 \
    X(angle, angle)                                                 \
    X(isreal, is_class)                                             \
    X(isposinf, is_class)                                           \
    X(isneginf, is_class)                                           \
    X(atleast_1d, at_least)                                         \
    X(atleast_2d, at_least)                                         \
    X(atleast_3d, at_least)                                         \
    X(atleast_1d_Sequence, at_least)                                \
    X(atleast_2d_Sequence, at_least)                                \
    X(atleast_3d_Sequence, at_least)                                \
    X(hsplit_int, split_along)                                      \
    X(vsplit_int, split_along)                                      \
    X(dsplit_int, split_along)                                      \
    X(hsplit_array, split_along)                                    \
    X(vsplit_array, split_along)                                    \
    X(dsplit_array, split_along)                                    \
    X(tensor_split_indices, tensor_split)                           \
    X(tensor_split_tensor_indices_or_sections, tensor_split_tensor) \
    X(column_stack, stack_columns)                                  \
    X(dstack, stack_columns)                                        \
    X(fliplr, flip_side)                                            \
    X(flipud, flip_side)                                            \
    X(diag, diag)                                                   \
    X(diagflat, diag)                                               \
    X(trace, trace)                                                 \
    X(tril_indices, triangle_places)                                \
    X(triu_indices, triangle_places)                                \
    X(cartesian_prod, cartesian_prod)                               \
    X(combinations, combinations)                                   \
    X(take, take)                                                   \
    X(put, put)                                                     \
    X(index_reduce, index_reduce)                                   \
    X(nonzero_static, nonzero_static)                               \
    X(searchsorted_Scalar, searchsorted_scalar)                     \
    X(msort, msort)                                                 \
    X(sum_to_size, sum_to_size)                                     \
    X(linspace_Tensor_Tensor, spaced)                               \
    X(linspace_Tensor_Scalar, spaced)                               \
    X(linspace_Scalar_Tensor, spaced)                               \
    X(logspace, spaced)                                             \
    X(logspace_Tensor_Tensor, spaced)                               \
    X(logspace_Tensor_Scalar, spaced)                               \
    X(logspace_Scalar_Tensor, spaced)                               \
    X(mse_loss, distance_loss)                                      \
    X(l1_loss, distance_loss)                                       \
    X(smooth_l1_loss, distance_loss)                                \
    X(huber_loss, distance_loss)                                    \
    X(binary_cross_entropy, binary_cross_entropy)                   \
    X(binary_cross_entropy_with_logits, bce_with_logits)            \
    X(kl_div, kl_div)                                               \
    X(poisson_nll_loss, poisson_nll_loss)                           \
    X(nll_loss, nll_loss)                                           \
    X(nll_loss_forward, nll_loss)                                   \
    X(nll_loss2d, nll_loss)                                         \
    X(nll_loss2d_forward, nll_loss)                                 \
    X(nll_loss_nd, nll_loss)                                        \
    X(cross_entropy_loss, cross_entropy_loss)                       \
    X(margin_ranking_loss, margin_ranking_loss)                     \
    X(hinge_embedding_loss, hinge_embedding_loss)                   \
    X(cosine_embedding_loss, cosine_embedding_loss)                 \
    X(triplet_margin_loss, triplet_margin_loss)                     \
    X(soft_margin_loss, soft_margin_loss)                           \
    X(multi_margin_loss, multi_margin_loss)                         \
    X(multilabel_margin_loss, multilabel_margin_loss)               \
    X(multilabel_margin_loss_forward, multilabel_margin_loss)       \
    X(pairwise_distance, pairwise_distance)                         \
    X(dist, dist)

#define X(op, function) tenon_status tn_lower_##function(tenon_node *, tenon_value **);
TN_LOWER_LIST(X)
TN_COMPOSITE_LIST(X)
#undef X

/* The rule of an op of either list; NULL for others. */
tn_rule_fn tn_lower_rule(int op);

#endif
