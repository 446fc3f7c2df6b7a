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

#define X(op, function) tenon_status tn_lower_##function(tenon_node *, tenon_value **);
TN_LOWER_LIST(X)
#undef X

#endif
